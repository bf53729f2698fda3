"""Opening a drafter by its path: an unquantized checkpoint, a QUANT folder or a drafter package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepack.artifacts.checkpoint import MODEL_FILE, Checkpoint, read_checkpoint
from forgepack.artifacts.quant import QUANT_FILE, read_quant
from forgepack.drafter.weights import CheckpointWeights, DrafterWeights, QuantWeights
from forgepack.errors import IdentityError, MissingError, PlatformError, UsageError
from forgepack.profile import Profile

Kind = Literal["checkpoint", "quant", "package"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDrafter:
    """A drafter's weights with the mask scale it is deployed with; ``sha256`` is that of its weights' file."""

    path: Path
    kind: Kind
    weights: DrafterWeights
    mask_scale: float
    sha256: str


def kind_of(path: Path) -> Kind:
    """Tell what a folder holds; UsageError when it does not exist, MissingError when it holds no drafter."""
    if not path.is_dir():
        raise UsageError("no such folder", where=str(path))
    if any(path.glob("*.aimodel")):
        return "package"
    if (path / QUANT_FILE).exists():
        return "quant"
    if (path / MODEL_FILE).exists():
        return "checkpoint"
    raise MissingError(
        "the folder holds no drafter",
        where=str(path),
        expected=f"{MODEL_FILE}, {QUANT_FILE} or an .aimodel",
        code="missing",
    )


def open_drafters(paths: Sequence[Path], profile: Profile, *, checkpoint: Path | None = None) -> list[OpenedDrafter]:
    """Open drafters in order. A QUANT needs the checkpoint it was made of: ``checkpoint``, or one among the paths.

    IdentityError when that is another one than the report records.
    """
    kinds = [kind_of(path) for path in paths]
    given = [path for path, kind in zip(paths, kinds, strict=True) if kind == "checkpoint"]
    base = checkpoint or (given[0] if given else None)
    out = []
    for path, kind in zip(paths, kinds, strict=True):
        if kind == "checkpoint":
            out.append(_open_checkpoint(path, profile))
        elif kind == "quant":
            out.append(_open_quant(path, profile, base))
        else:
            out.append(_open_package(path))
    return out


def _open_checkpoint(path: Path, profile: Profile) -> OpenedDrafter:
    checkpoint = read_checkpoint(path, profile)
    weights = CheckpointWeights(checkpoint=checkpoint, geometry=profile.geometry)
    return OpenedDrafter(
        path=path,
        kind="checkpoint",
        weights=weights,
        mask_scale=profile.recipe.mask_scale,
        sha256=_model_sha256(checkpoint),
    )


def _open_quant(path: Path, profile: Profile, base: Path | None) -> OpenedDrafter:
    if base is None:
        hint = "give --checkpoint, or name the checkpoint as the first pair"
        raise UsageError("a QUANT folder needs the checkpoint it was made of", where=str(path), hint=hint)
    quant, checkpoint = read_quant(path, profile.geometry), read_checkpoint(base, profile)
    found = _model_sha256(checkpoint)
    if quant.report.model_sha256 != found:
        raise IdentityError(
            "the QUANT folder was made of another checkpoint",
            where=str(path),
            expected=f"{MODEL_FILE} with sha256 {quant.report.model_sha256}",
            found=f"sha256 {found} in {base}",
            code="quant-checkpoint",
        )
    weights = CheckpointWeights(checkpoint=checkpoint, geometry=profile.geometry)
    return OpenedDrafter(
        path=path,
        kind="quant",
        weights=QuantWeights(quant=quant, base=weights),
        mask_scale=quant.report.mask_scale,
        sha256=quant.report.output_sha256,
    )


def _open_package(path: Path) -> OpenedDrafter:
    """Refuse a package: reading its constants back as weights belongs to the Core AI room."""
    raise PlatformError("a drafter package can't be replayed by this version", where=str(path), code="package-replay")


def _model_sha256(checkpoint: Checkpoint) -> str:
    entry = checkpoint.lock.file(MODEL_FILE)
    assert entry is not None, "a lock covers every file of its profile"
    return entry.sha256
