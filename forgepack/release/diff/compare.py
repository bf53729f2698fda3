"""How two files or folders differ, and by how much; of two drafter packages also which rules fail for the second.

Both sides are recognised first. Folders are compared file by file, each by what it is; an asset or a Core ML package
inside counts as one thing. What can't be parsed is compared by its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from forgepack import __version__
from forgepack.artifacts.aimodel import SUFFIX
from forgepack.artifacts.files import hash_file, read_bounded
from forgepack.artifacts.mlpackage import SUFFIXES as COREML_SUFFIXES
from forgepack.artifacts.npz import read_npz
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.target import read_embedding
from forgepack.artifacts.tokenizer import TOKENIZER_FILE, read_json, read_tokenizer
from forgepack.artifacts.tree import Entry, walk
from forgepack.errors import EXIT_OK, EXIT_REFUSED, CorruptError, InputError
from forgepack.json_values import lookup
from forgepack.limits import SMALL_FILE
from forgepack.profile import Profile, load_profile, profile_names
from forgepack.release.diff.assets import asset_differences
from forgepack.release.diff.coreml import coreml_differences
from forgepack.release.diff.json_documents import json_differences, tokenizer_differences
from forgepack.release.diff.tensors import (
    array_differences,
    matrix_differences,
    npy_array,
    npz_arrays,
    safetensors_differences,
)
from forgepack.release.diff.values import Amount, Difference, unread
from forgepack.release.inspect.recognition import recognise, recognise_file
from forgepack.verify.replacement import Refusal, refusals

SCHEMA = "forgepack.diff/2"
MAX_DIFFERENCES = 10_000
LINE = 120
DRAFTER, UNKNOWN = "drafter-package", "folder"
Compare = Callable[[Path, Path, str], Iterator[Difference]]
_UNITS = (SUFFIX, *COREML_SUFFIXES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What was compared, its kinds, and every difference in order; ``cut`` says that there are more.

    ``rules`` are those that the verifier fails ``right`` by, given the sidecar of ``left`` or its own; None where the
    sides are not two drafter packages of a known profile.
    """

    left: Path
    right: Path
    kinds: tuple[str, str]
    differences: tuple[Difference, ...]
    cut: bool
    rules: tuple[str, ...] | None = None

    @property
    def exit_code(self) -> int:
        """1 when something differs, else 0."""
        return EXIT_REFUSED if self.differences else EXIT_OK


def diff_paths(left: Path, right: Path, *, profile: Profile | None = None, target: Path | None = None) -> Diff:
    """Compare two files or folders; UsageError when one does not exist, UnreadableError when it can't be read.

    Of two drafter packages that differ, the verifier's rules are asked about the second: under ``profile``, by
    default the shipped one that the first names, and with ``target``, a release root, about both together.
    """
    kinds = recognise(left), recognise(right)
    found = list(islice(_differences(left, right, kinds), MAX_DIFFERENCES + 1))
    differences, cut = found[:MAX_DIFFERENCES], len(found) > MAX_DIFFERENCES
    rules: tuple[str, ...] | None = None
    profile = profile or _named_profile(left)
    if kinds == (DRAFTER, DRAFTER) and differences and profile is not None:
        refused = refusals(left, right, profile, target)
        rules = tuple(one.rule for one in refused)
        differences = [replace(one, rules=tuple(_at(one.file, refused))) for one in differences]
    return Diff(left=left, right=right, kinds=kinds, differences=tuple(differences), cut=cut, rules=rules)


def _at(file: str, refused: Iterable[Refusal]) -> Iterator[str]:
    """Yield the rules that found something in a file, or in what contains it."""
    for one in refused:
        if any(file == place or (place and file.startswith(f"{place}/")) for place in one.files):
            yield one.rule


def _named_profile(drafter: Path) -> Profile | None:
    """Return the shipped profile that a package's sidecar names by its digest, None where it names no such one."""
    shipped = {profile.digest: profile for profile in map(load_profile, profile_names())}
    for path in sorted(drafter.glob("*.json")):
        try:
            stated = lookup(read_json(path), "forgepack.profile.sha256")
        except InputError:
            continue
        if stated in shipped:
            return shipped[stated]
    return None


def _differences(left: Path, right: Path, kinds: tuple[str, str]) -> Iterator[Difference]:
    if kinds[0] != kinds[1]:
        yield Difference(kind="kind", file="", place="", left=kinds[0], right=kinds[1])
        if left.is_dir() != right.is_dir() or (left.is_dir() and UNKNOWN not in kinds):
            return  # a list of files would say less than the two kinds do
    if left.is_dir():
        yield from _folders(left, right, kinds[0])
    else:
        yield from _files(left, right, "")


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
    """Yield files, links and special entries, and folders that count as one thing instead of what is in them."""
    inside: str | None = None
    for entry in sorted(walk(root), key=lambda entry: entry.path.split("/")):
        if inside is not None and entry.path.startswith(inside):
            continue
        if entry.kind == "folder":
            if not entry.path.casefold().endswith(_UNITS):
                continue
            inside = entry.path + "/"
        yield entry


def _entry(entry: Entry | None) -> str | None:
    if entry is None:
        return None
    if entry.kind == "link":
        return f"a link to {entry.target}"
    return f"{entry.size} bytes" if entry.kind == "file" else f"a {entry.kind}"


def _files(left: Path, right: Path, file: str) -> Iterator[Difference]:
    """Compare two regular files: equal bytes are equal, else by what they hold."""
    if hash_file(left) == hash_file(right):
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
        same = not found and kinds[0] == kinds[1] and kinds[0] in {*_BY_CONTENT} - {"text"}
        yield from _bytes(left, right, file, note="the same content in other bytes" if same else "")


def _bytes(left: Path, right: Path, file: str, *, note: str) -> Iterator[Difference]:
    sides = ["{} bytes, sha256 {}".format(*hash_file(path)) for path in (left, right)]
    yield Difference(kind="bytes", file=file, place="", left=sides[0], right=sides[1], note=note)


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


def _text(left: Path, right: Path, file: str) -> Iterator[Difference]:
    """Yield the first line in which two small texts differ; larger ones, and line ends, differ by their bytes."""
    if max(path.stat().st_size for path in (left, right)) > SMALL_FILE:
        return
    lines = [read_bounded(path).decode(errors="replace").splitlines() for path in (left, right)]
    pairs = enumerate(zip_longest(*lines), start=1)
    first = next(((number, pair) for number, pair in pairs if pair[0] != pair[1]), None)
    if first is None:
        yield from _bytes(left, right, file, note="the same lines with other line ends")
        return
    number, sides = first
    counts = " and ".join(str(len(side)) for side in lines)
    shown = [None if side is None else side[:LINE] for side in sides]
    note = f"the first line that differs, of {counts}"
    yield Difference(kind="text", file=file, place=f"line {number}", left=shown[0], right=shown[1], note=note)


_JSON_KINDS = (
    *("sidecar", "coreml-sidecar", "checkpoint-lock", "quant-report", "replay-report", "gate-result", "gate-policy"),
    *("timings", "source-record", "profile", "report", "release", "drafter-config", "diff", "inspection", "manifest"),
    *("build-lock", "release-record", "upstream-record", "command-output"),
    *("asset-metadata", "mlpackage-manifest", "safetensors-index", "model-config", "json"),
)
# Kinds that are JSON, or should be: two of these are compared value by value, or it is said why not.
_MAYBE_JSON = ("tokenizer", "damaged-json", "empty", "lfs-pointer", "html")
_BY_CONTENT: dict[str, Compare] = {
    "safetensors": _safetensors,
    "npz": _npz,
    "npy": _npy,
    "tokenizer": _tokenizer,
    "text": _text,
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
        "rules": None if found.rules is None else list(found.rules),
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
    # A left side of zeros has no scale to compare a difference with.
    return out if amount.relative == float("inf") else out | {"relative": amount.relative}
