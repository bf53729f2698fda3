"""How two files or folders differ: fields, files, tensors, by how much, and which rules would refuse the second.

Both sides are recognised first. Folders are compared file by file, each by what it is; an asset or a Core ML package
inside counts as one thing. What can't be parsed is compared by its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from forgepack import __version__
from forgepack.artifacts.aimodel import SUFFIX
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.mlpackage import SUFFIXES as COREML_SUFFIXES
from forgepack.artifacts.npz import read_npz
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.target import read_embedding
from forgepack.artifacts.tokenizer import TOKENIZER_FILE, read_json, read_tokenizer
from forgepack.artifacts.tree import Entry, walk
from forgepack.errors import EXIT_OK, EXIT_REFUSED, CorruptError
from forgepack.release.diff.assets import asset_differences
from forgepack.release.diff.coreml import coreml_differences
from forgepack.release.diff.json_documents import json_differences, tokenizer_differences
from forgepack.release.diff.rules import with_rules
from forgepack.release.diff.tensors import (
    array_differences,
    matrix_differences,
    npy_array,
    npz_arrays,
    safetensors_differences,
)
from forgepack.release.diff.values import Amount, Difference, unread
from forgepack.release.inspect.recognition import recognise, recognise_file

SCHEMA = "forgepack.diff/1"
MAX_DIFFERENCES = 10_000
Compare = Callable[[Path, Path, str], Iterator[Difference]]
_UNITS = (SUFFIX, *COREML_SUFFIXES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What was compared, its kinds, and every difference in order; ``cut`` says that there are more."""

    left: Path
    right: Path
    kinds: tuple[str, str]
    differences: tuple[Difference, ...]
    cut: bool

    @property
    def exit_code(self) -> int:
        """1 when something differs, else 0."""
        return EXIT_REFUSED if self.differences else EXIT_OK


def diff_paths(left: Path, right: Path) -> Diff:
    """Compare two files or folders; UsageError when one does not exist, UnreadableError when it can't be read."""
    kinds = recognise(left), recognise(right)
    found = _differences(left, right, kinds)
    kept = list(islice(found, MAX_DIFFERENCES + 1))
    return Diff(
        left=left,
        right=right,
        kinds=kinds,
        differences=tuple(kept[:MAX_DIFFERENCES]),
        cut=len(kept) > MAX_DIFFERENCES,
    )


def _differences(left: Path, right: Path, kinds: tuple[str, str]) -> Iterator[Difference]:
    if kinds[0] != kinds[1]:
        yield Difference(kind="kind", file="", place="", left=kinds[0], right=kinds[1])
        if left.is_dir() != right.is_dir():
            return
    if left.is_dir():
        for one in _folders(left, right, kinds[0]):
            yield with_rules(one, kinds[0])
    else:
        for one in _files(left, right, ""):
            yield with_rules(one, kinds[0])


def _folders(left: Path, right: Path, kind: str) -> Iterator[Difference]:
    if kind == "asset":
        yield from asset_differences(left, right, "")
    elif kind in ("mlpackage", "mlmodelc"):
        yield from coreml_differences(left, right, "")
    else:
        yield from _trees(left, right)


def _trees(left: Path, right: Path) -> Iterator[Difference]:
    """Compare two folders entry by entry; assets and packages inside are compared as one thing each."""
    sides = [{entry.path: entry for entry in _entries(root)} for root in (left, right)]
    for path in sorted({*sides[0], *sides[1]}):
        one, other = (side.get(path) for side in sides)
        if one is None or other is None or one.kind != other.kind or one.target != other.target:
            yield Difference(kind="file", file=path, place="", left=_entry(one), right=_entry(other))
        elif one.kind == "folder":
            compare = asset_differences if path.casefold().endswith(SUFFIX) else coreml_differences
            yield from compare(left / path, right / path, path)
        elif one.kind == "file":
            yield from _files(left / path, right / path, path)


def _entries(root: Path) -> Iterator[Entry]:
    """Yield files, links and special entries, and folders that count as one thing instead of what lies in them."""
    inside: str | None = None
    for entry in sorted(walk(root), key=lambda entry: entry.path.split("/")):
        if inside is not None and entry.path.startswith(inside):
            continue
        if entry.kind == "folder":
            if not entry.path.casefold().endswith(_UNITS):
                continue
            inside = entry.path + "/"
        yield entry


def _entry(entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    if entry.kind == "link":
        return f"a link to {entry.target}"
    return f"{entry.size} bytes" if entry.kind == "file" else f"a {entry.kind}"


def _files(left: Path, right: Path, file: str) -> Iterator[Difference]:
    """Compare two regular files: equal bytes are equal, else by what they hold."""
    sizes = [path.stat().st_size for path in (left, right)]
    digests = [hash_file(path)[1] for path in (left, right)]
    if digests[0] == digests[1]:
        return
    kinds = recognise_file(left), recognise_file(right)
    found: list[Difference] = []
    if kinds[0] != kinds[1] and file:
        yield Difference(kind="kind", file=file, place="", left=kinds[0], right=kinds[1])
    compare = _comparison(kinds)
    if compare is not None:
        try:
            found = list(compare(left, right, file))
        except CorruptError as err:
            found = [unread(file, err)]
    yield from found
    if not found or found[0].kind == "unread":
        texts = [f"{size} bytes, sha256 {digest}" for size, digest in zip(sizes, digests, strict=True)]
        same = not found and kinds[0] == kinds[1] and kinds[0] in _BY_CONTENT
        note = "the same content in other bytes" if same else ""
        yield Difference(kind="bytes", file=file, place="", left=texts[0], right=texts[1], note=note)


def _comparison(kinds: tuple[str, str]) -> Compare | None:
    """Return how two files are compared by what they hold; None where their bytes are all there is."""
    if kinds[0] == kinds[1] and kinds[0] in _BY_CONTENT:
        return _BY_CONTENT[kinds[0]]
    if set(kinds) <= {*_JSON_KINDS, *_MAYBE_JSON}:
        return _tokenizer if "tokenizer" in kinds else _json
    return None


def _safetensors(left: Path, right: Path, file: str) -> Iterator[Difference]:
    sides = read_safetensors(left), read_safetensors(right)
    yield from matrix_differences(sides[0], sides[1], file)
    yield from safetensors_differences(sides[0], sides[1], file)


def _npz(left: Path, right: Path, file: str) -> Iterator[Difference]:
    return array_differences(npz_arrays(read_npz(left)), npz_arrays(read_npz(right)), file)


def _npy(left: Path, right: Path, file: str) -> Iterator[Difference]:
    return array_differences(npy_array(read_embedding(left)), npy_array(read_embedding(right)), file)


def _json(left: Path, right: Path, file: str) -> Iterator[Difference]:
    values = [read_json(path) for path in (left, right)]
    return json_differences(values[0], values[1], file)


def _tokenizer(left: Path, right: Path, file: str) -> Iterator[Difference]:
    if {left.name, right.name} != {TOKENIZER_FILE}:
        return _json(left, right, file)
    return tokenizer_differences(read_tokenizer(left.parent), read_tokenizer(right.parent), file)


_JSON_KINDS = (
    *("sidecar", "coreml-sidecar", "checkpoint-lock", "quant-report", "replay-report", "gate-result", "gate-policy"),
    *("timings", "source-record", "profile", "report", "release", "drafter-config", "diff", "inspection", "manifest"),
    *("build-lock", "release-record", "upstream-record", "command-output"),
    *("asset-metadata", "mlpackage-manifest", "safetensors-index", "model-config", "json"),
)
# Kinds that are JSON, or should be: two of these are compared value by value, or it is said why not.
_MAYBE_JSON = ("tokenizer", "damaged-json", "empty", "lfs-pointer", "html", "text")
_BY_CONTENT: dict[str, Compare] = {
    "safetensors": _safetensors,
    "npz": _npz,
    "npy": _npy,
    "tokenizer": _tokenizer,
    **dict.fromkeys(_JSON_KINDS, _json),
}


def diff_json(found: Diff) -> dict[str, Any]:
    """Return the result as the JSON object that schemas/diff.schema.json describes."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "forgepack", "version": __version__},
        "left": {"path": found.left.as_posix(), "kind": found.kinds[0]},
        "right": {"path": found.right.as_posix(), "kind": found.kinds[1]},
        "equal": not found.differences,
        "count": len(found.differences),
        "cut": found.cut,
        "differences": [_difference_json(one) for one in found.differences],
    }


def _difference_json(one: Difference) -> dict[str, Any]:
    out: dict[str, Any] = {
        "kind": one.kind,
        "file": one.file,
        "place": one.place,
        "left": one.left,
        "right": one.right,
        "rules": list(one.rules),
    }
    if one.note:
        out["note"] = one.note
    if one.amount is not None:
        out["amount"] = _amount_json(one.amount)
    return out


def _amount_json(amount: Amount) -> dict[str, Any]:
    out = {
        "elements": amount.elements,
        "differing": amount.differing,
        "max": amount.maximum,
        "rms": amount.rms,
        "unmatched": amount.unmatched,
    }
    # A left side of zeros has no scale to hold a difference against.
    return out if amount.relative == float("inf") else out | {"relative": amount.relative}
