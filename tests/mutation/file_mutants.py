"""Mutants of whole files: each file of export and model/ lost, replaced as by a failed download, copied, one more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.mutation.stage import Mutant, Stage

_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 1234\n"
_PAGE = b"<!DOCTYPE html><html><body>Sign in</body></html>"
_AREAS = ("FMT", "PKG", "CTR", "TOK", "HEAD", "WGT")
# Names that nothing of the pair has: layers beyond the last, other tensors, files that tools would load.
_STRAY = (
    "export/*/layer_99.safetensors",
    "export/*/layer_0.safetensors",
    "export/*/layer_00_mixer_old.safetensors",
    "export/*/notes.bin",
    "export/*/rope.npy",
    "coreai/extra.json",
    "coreai/chunk_L00-03.aimodel/extra.bin",
)
# Names of model/ that the pair may have or not.
_OPTIONAL = ("added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.model", "vocab.json")


def file_mutants(stage: Stage) -> Iterator[Mutant]:
    """Yield the mutants of every file of the target's export and model folder, and of files that should not be."""
    target = stage.root / "target"
    (export,) = [path for path in (target / "export").iterdir() if path.is_dir()]
    for folder in (export, target / "model"):
        paths = sorted(path for path in folder.iterdir() if path.is_file())
        for path in paths:
            yield from _of_file(stage, path, sibling=_sibling(path, paths))
    layer = next(export.glob("layer_*")).read_bytes()
    names = [name.replace("*", export.name) for name in _STRAY]
    names += [f"model/{name}" for name in _OPTIONAL if not (target / "model" / name).exists()]
    for name in names:
        data = layer[:-1] + bytes([layer[-1] ^ 1]) if name.endswith(".safetensors") else b'{"x": 1}'
        yield _mutant(stage, target / name, "one file more", data)


def _of_file(stage: Stage, path: Path, *, sibling: Path) -> Iterator[Mutant]:
    data = path.read_bytes()
    half = len(data) // 2
    changes = {
        "Git LFS pointer": _POINTER,
        "HTML page": _PAGE,
        "no byte": b"",
        "cut": data[:half],
        "copy of a sibling": sibling.read_bytes(),
        "zeros": bytes(len(data)),
        "one bit": data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :],
    }
    yield Mutant(
        subject="target files", place=_place(stage, path), kind="missing", areas=_AREAS, file=_place(stage, path)
    )
    for kind, changed in changes.items():
        if changed != data:
            yield _mutant(stage, path, kind, changed)


def _mutant(stage: Stage, path: Path, kind: str, data: bytes) -> Mutant:
    place = _place(stage, path)
    return Mutant(subject="target files", place=place, kind=kind, areas=_AREAS, file=place, make=partial(bytes, data))


def _place(stage: Stage, path: Path) -> str:
    return path.relative_to(stage.root).as_posix()


def _sibling(path: Path, paths: list[Path]) -> Path:
    """Return another file of the same kind, or any other."""
    kind = re.sub(r"\d+", "", path.name)
    others = [other for other in paths if other != path]
    return next((other for other in others if re.sub(r"\d+", "", other.name) == kind), others[0])
