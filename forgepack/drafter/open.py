"""Opening a drafter by its path: an unquantized checkpoint, a QUANT folder or a drafter package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.aimodel import SUFFIX
from forgepack.artifacts.checkpoint import MODEL_FILE, Checkpoint, read_checkpoint
from forgepack.artifacts.quant import QUANT_FILE, read_quant
from forgepack.artifacts.trace_overlap import Fingerprint
from forgepack.canonical import digest_json
from forgepack.drafter.batch import TokenRows
from forgepack.drafter.draft import Drafter
from forgepack.drafter.head import Head
from forgepack.drafter.weights import CheckpointWeights, DrafterWeights, QuantWeights
from forgepack.errors import IdentityError, MissingError, UsageError
from forgepack.profile import Profile

Kind = Literal["checkpoint", "quant", "package"]
# What calibrated a drafter: nothing, or sequences that are not known.
Uncalibrated = Literal["none", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDrafter:
    """A drafter ready to be replayed. ``files`` are the files that hold its weights, name -> sha256.

    A package brings its own ``head`` and ``mask_row``, and its mask scale is part of its weights (``folded``).
    ``deployed`` is false where another mask scale than the drafter's own is asked for. ``calibrated`` holds the
    sequences that calibrated it.
    """

    path: Path
    kind: Kind
    weights: DrafterWeights
    mask_scale: float
    files: Mapping[str, str]
    calibrated: Fingerprint | Uncalibrated
    head: Head | None = None
    mask_row: npt.NDArray[np.float16] | None = None
    folded: bool = False
    deployed: bool = True

    @property
    def sha256(self) -> str:
        """Identity of the drafter: the digest of its files' digests."""
        return digest_json(dict(self.files))

    def at_mask_scale(self, scale: float) -> OpenedDrafter:
        """Return the drafter at another mask scale; UsageError where the scale is part of the weights."""
        if self.folded:
            hint = "leave --mask-scale out, or name the QUANT that the package was made of"
            raise UsageError("a package's mask scale is part of its constants", where=str(self.path), hint=hint)
        return replace(self, mask_scale=scale, deployed=scale == self.mask_scale)

    def drafter(self, head: Head, embedding: TokenRows) -> Drafter:
        """Return the drafter with the target's head and embedding, where it does not bring its own."""
        return Drafter(
            weights=self.weights,
            head=head if self.head is None else self.head,
            embedding=embedding,
            mask_scale=1.0 if self.folded else self.mask_scale,
            mask_row=self.mask_row,
        )


PackageOpener = Callable[[Path], AbstractContextManager[OpenedDrafter]]


def kind_of(path: Path) -> Kind:
    """Say what a folder holds; UsageError when it is none, MissingError when it holds no drafter."""
    if not path.is_dir():
        raise UsageError("no such folder", where=str(path))
    if path.suffix == SUFFIX:
        hint = f"name the folder that holds it: {path.parent}"
        raise UsageError("an asset alone is not a drafter package", where=str(path), hint=hint)
    if any(path.glob(f"*{SUFFIX}")):
        return "package"
    if (path / QUANT_FILE).exists():
        return "quant"
    if (path / MODEL_FILE).exists():
        return "checkpoint"
    raise MissingError(
        "the folder holds no drafter",
        where=str(path),
        expected=f"{MODEL_FILE}, {QUANT_FILE} or an {SUFFIX}",
        code="missing",
    )


@contextmanager
def open_drafters(
    paths: Sequence[Path], profile: Profile, *, packages: PackageOpener, checkpoint: Path | None = None
) -> Iterator[list[OpenedDrafter]]:
    """Open drafters in order, every byte of their files hashed; they stay open as long as the context lasts.

    A QUANT needs the checkpoint it was made of: ``checkpoint``, or the first one among the paths; IdentityError when
    that is another one than its report records. ``packages`` opens a drafter package.
    """
    kinds = [kind_of(path) for path in paths]
    given = [path for path, kind in zip(paths, kinds, strict=True) if kind == "checkpoint"]
    base = checkpoint or (given[0] if given else None)
    read: dict[Path, Checkpoint] = {}

    def checkpoint_at(path: Path) -> Checkpoint:
        if path not in read:
            read[path] = read_checkpoint(path, profile, hashed=True)
        return read[path]

    with ExitStack() as stack:
        out = []
        for path, kind in zip(paths, kinds, strict=True):
            if kind == "package":
                out.append(stack.enter_context(packages(path)))
            elif kind == "checkpoint":
                out.append(_open_checkpoint(checkpoint_at(path), profile))
            elif base is None:
                hint = "give --checkpoint, or name the checkpoint as the first drafter"
                raise UsageError("a QUANT folder needs the checkpoint it was made of", where=str(path), hint=hint)
            else:
                out.append(_open_quant(path, checkpoint_at(base), profile))
        yield out


def _open_checkpoint(checkpoint: Checkpoint, profile: Profile) -> OpenedDrafter:
    return OpenedDrafter(
        path=checkpoint.root,
        kind="checkpoint",
        weights=CheckpointWeights(checkpoint=checkpoint, geometry=profile.geometry),
        mask_scale=profile.recipe.mask_scale,
        calibrated="none",
        files={MODEL_FILE: model_sha256(checkpoint)},
    )


def _open_quant(path: Path, checkpoint: Checkpoint, profile: Profile) -> OpenedDrafter:
    quant, found = read_quant(path, profile.geometry), model_sha256(checkpoint)
    if quant.report.model_sha256 != found:
        raise IdentityError(
            "the QUANT folder was made of another checkpoint",
            where=str(path),
            expected=f"{MODEL_FILE} with sha256 {quant.report.model_sha256}",
            found=f"sha256 {found} in {checkpoint.root}",
            code="quant-checkpoint",
        )
    base = CheckpointWeights(checkpoint=checkpoint, geometry=profile.geometry)
    return OpenedDrafter(
        path=path,
        kind="quant",
        weights=QuantWeights(quant=quant, base=base),
        mask_scale=quant.report.mask_scale,
        calibrated=quant.report.calibrated or "unknown",
        files={QUANT_FILE: quant.report.output_sha256, MODEL_FILE: found},
    )


def model_sha256(checkpoint: Checkpoint) -> str:
    """Return the digest of the weights' file that the checkpoint's lock records."""
    entry = checkpoint.lock.file(MODEL_FILE)
    assert entry is not None, "a lock covers every file of its profile"
    return entry.sha256
