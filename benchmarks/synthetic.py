"""Make a synthetic release in a scratch directory, or take the one that is there: ``python -m benchmarks.synthetic``.

Deterministic from scale and seed, whatever the number of threads. Each part (checkpoint, target, traces) is written
into a staging folder, renamed, and recorded in synthetic.json with sizes and digests; a later run with the same
scale, seed and sources takes a part whose files have the recorded sizes (digests with ``--rehash``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.noise import Noise
from benchmarks.scales import SCALES, Scale, make_scale
from benchmarks.target import export_name, write_target
from benchmarks.traces import write_traces
from benchmarks.weights import write_checkpoint
from forgepack.artifacts.files import hash_file
from forgepack.canonical import dump_canonical, dump_compact
from forgepack.geometry import Geometry, checkpoint_tensors
from forgepack.parallel import Pool, open_pool

MANIFEST = "synthetic.json"
SCHEMA = "forgepack.synthetic/1"
_SHARED = ("noise", "scales", "synthetic")
_SOURCES = {"checkpoint": ("weights",), "target": ("target", "vocabulary"), "traces": ("traces",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Where the parts of a synthetic release lie."""

    root: Path
    scale: Scale

    @property
    def profile(self) -> Path:
        """The profile's JSON file."""
        return self.root / "profile.json"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint folder."""
        return self.root / "checkpoint"

    @property
    def target(self) -> Path:
        """The target's release root."""
        return self.root / "target"

    def traces(self, split: str) -> Path:
        """Return the path of the trace file ``calibration`` or ``held_out``."""
        return self.root / "traces" / f"{split}.npz"


class NoSpaceError(Exception):
    """The scratch directory's disk is too small."""


@dataclass(slots=True)
class _Build:
    release: Release
    noise: Noise
    pool: Pool
    tell: Callable[[str], None]
    rehash: bool
    record: dict[str, Any] = field(default_factory=dict)

    def part(self, name: str, write: Callable[[Path], None], inputs: bytes = b"") -> list[dict[str, Any]]:
        """Take the part if it is as recorded for the same sources and ``inputs``, else write it; return its files."""
        folder, sources = self.release.root / name, _source_digest(name, inputs)
        known = self.record["parts"].get(name, {})
        if known.get("sources") == sources and _unchanged(folder, known["files"], self.rehash):
            self.tell(f"{name}: taken as it is")
        else:
            self.tell(f"{name}: writing")
            staging = self.release.root / f".{name}.partial"
            shutil.rmtree(staging, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
            staging.mkdir()
            write(staging)
            known = {"sources": sources, "files": _list_files(staging)}
            staging.rename(folder)
            self.record["parts"][name] = known
            _replace(self.release.root / MANIFEST, dump_canonical(self.record))
        files: list[dict[str, Any]] = known["files"]
        return files


def make_release(
    scratch: Path,
    scale_name: str,
    *,
    seed: int = 1,
    workers: int = 2,
    rehash: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Release:
    """Make or take the release below ``scratch/<scale>``; NoSpaceError when the disk can't hold it."""
    scale = make_scale(scale_name)
    release = Release(root=scratch / scale.name, scale=scale)
    release.root.mkdir(parents=True, exist_ok=True)
    record = _read_record(release.root / MANIFEST, scale.name, seed)
    if not record["parts"]:
        _demand_space(release)
    _replace(release.profile, dump_canonical(scale.raw))
    with open_pool(workers) as pool:
        build = _Build(release=release, noise=Noise(seed=seed), pool=pool, tell=tell, rehash=rehash, record=record)
        weights = build.part("checkpoint", lambda root: write_checkpoint(root, scale, build.noise, pool))
        target = build.part("target", lambda root: write_target(root, scale, build.noise, pool))
        identity = _identity(scale, {f["path"]: f["sha256"] for f in (*weights, *target)})
        build.part("traces", lambda root: _write_both(root, build, identity), dump_compact(identity))
    return release


def _write_both(root: Path, build: _Build, identity: dict[str, Any]) -> None:
    for split in ("calibration", "held_out"):
        named = {**identity, "split": split}
        write_traces(root / f"{split}.npz", build.release.scale, build.noise, build.pool, identity=named)


def _identity(scale: Scale, digests: dict[str, str]) -> dict[str, Any]:
    """Return the traces' identity, as ``forgepack.artifacts.trace_identity`` reads it."""
    export = export_name(scale)
    return {
        "schema": "forgepack.traces/1",
        "split": "",
        "mask_scale": scale.profile.recipe.mask_scale,
        "taps": list(scale.profile.geometry.taps),
        "tap_convention": "layer_output_zero_based",
        "drafter": {"model_sha256": digests["model.safetensors"]},
        "target": {
            "export": export,
            "lm_head_sha256": digests[f"export/{export}/lm_head.safetensors"],
            "tokenizer_sha256": digests["model/tokenizer.json"],
            "embedding_sha256": digests["model/embed_tokens_fp16.npy"],
        },
        "generator": "benchmarks.synthetic",
    }


def bytes_needed(scale: Scale) -> int:
    """Return about how many bytes the release takes on disk."""
    g: Geometry = scale.profile.geometry
    weights = 2 * sum(math.prod(shape) for shape in checkpoint_tensors(g).values())
    head_and_embedding = g.vocab * g.hidden * 7 // 2  # U8 indices, float16 embedding, packed indices
    traces = scale.traces
    rows = (traces.calibration + traces.held_out) * (traces.prompt[1] + traces.new_tokens)
    return int(1.05 * (weights + head_and_embedding + rows * g.features * 2)) + (64 << 20)


def _demand_space(release: Release) -> None:
    needed, free = bytes_needed(release.scale), shutil.disk_usage(release.root).free
    if free < needed:
        raise NoSpaceError(f"{release.root}: {needed / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free")


def _read_record(path: Path, scale: str, seed: int) -> dict[str, Any]:
    head = {"schema": SCHEMA, "scale": scale, "seed": seed}
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        if {key: record.get(key) for key in head} == head:
            return record
    except (OSError, ValueError):
        pass  # none yet, or of a dead run: everything is made anew
    return {**head, "parts": {}}


def _source_digest(part: str, inputs: bytes) -> str:
    """Return the digest of the modules, and of the other inputs, that decide a part's content."""
    digest = hashlib.sha256(inputs)
    for name in (*_SHARED, *_SOURCES[part]):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()


def _list_files(folder: Path) -> list[dict[str, Any]]:
    out = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        size, digest = hash_file(path)
        out.append({"path": path.relative_to(folder).as_posix(), "bytes": size, "sha256": digest})
    return out


def _unchanged(folder: Path, files: list[dict[str, Any]], rehash: bool) -> bool:
    paths = [folder / f["path"] for f in files]
    if not all(p.is_file() and p.stat().st_size == f["bytes"] for p, f in zip(paths, files, strict=True)):
        return False
    return not rehash or all(hash_file(p)[1] == f["sha256"] for p, f in zip(paths, files, strict=True))


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(data)
    temporary.replace(path)


def main() -> int:
    """Parse the command line and make a release."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synthetic", description=__doc__)
    parser.add_argument("scratch", type=Path, help="a directory outside the repository")
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rehash", action="store_true", help="compare digests of what is there, not only sizes")
    args = parser.parse_args()
    if args.scratch.resolve().is_relative_to(Path(__file__).resolve().parents[1]):
        parser.error("the scratch directory must lie outside the repository")
    try:
        release = make_release(
            args.scratch,
            args.scale,
            seed=args.seed,
            workers=args.workers,
            rehash=args.rehash,
            tell=lambda text: print(text, file=sys.stderr, flush=True),
        )
    except NoSpaceError as err:
        parser.error(str(err))
    print(release.root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
