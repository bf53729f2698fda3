"""The target's quantized export as a whole: a head, and two files a layer, by the number of the target's layers.

``lm_head.safetensors`` alone is an export, too: head and quantization need no more. Once one layer is there, all must
be. The names of tensors may repeat from layer to layer: without an index no reader takes the files as one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.aimodel import COMPILED_SUFFIXES
from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.plain_files import file_faults, holds_zeros_alone
from forgepack.artifacts.safetensors_file import DTYPES, SafetensorsFile, inspect_safetensors
from forgepack.artifacts.target import HEAD_FILE, MANIFEST_FILE
from forgepack.artifacts.tree import JUNK, Entry, unsafe_reason
from forgepack.canonical import parse_object
from forgepack.errors import CorruptError, ForgepackError
from forgepack.finite import find_nonfinite
from forgepack.limits import JSON_BYTES

INDEX_FILE = "model.safetensors.index.json"
_SUFFIX = ".safetensors"
_LAYER = re.compile(r"layer_.*\.safetensors")
_MIXER = f"_mixer{_SUFFIX}"
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFiles:
    """What an export holds: headers of its tensor files by name, and names of layer files that it lacks.

    ``missing`` are all of them in an export that is a head alone. ``bound_unread`` are faults of files that an older
    binding took as they are.
    """

    root: Path
    files: Mapping[str, SafetensorsFile]
    missing: tuple[str, ...]
    bound_unread: tuple[ForgepackError, ...] = ()


def layer_files(layers: int) -> tuple[str, ...]:
    """Return the names of the files of ``layers`` layers, ``layer_00.safetensors`` and its mixer first."""
    names = [f"layer_{layer:02d}" for layer in range(layers)]
    return tuple(f"{name}{part}{_SUFFIX}" for name in names for part in ("", "_mixer"))


def read_export(root: Path, entries: Sequence[Entry], *, layers: int) -> tuple[ExportFiles, list[ForgepackError]]:
    """Read every file of an export by its form, and its names by the number of layers; headers alone are read.

    The head's own faults are left to its reader. Codes: ``export-layers``, ``export-index``, ``export-empty``, and
    those of the files' readers.
    """
    paths = [entry.path for entry in entries if entry.kind in ("file", "link") and not JUNK.search(entry.path)]
    headers: dict[str, SafetensorsFile] = {}
    faults: list[ForgepackError] = []
    for path in paths:
        file, found = _read_file(root / path)
        faults += [] if path == HEAD_FILE else found
        if file is not None:
            headers[path] = file
            if not file.tensors and not found:
                what = "the file holds no tensor"
                faults.append(
                    CorruptError(what, where=str(root / path), found="an empty header", code="export-empty")
                )
    expected = layer_files(layers)
    faults += _name_faults(root, paths, expected)
    faults += _exchanged(root, {name: headers[name] for name in expected if name in headers})
    if INDEX_FILE in paths:
        faults += index_faults(root, headers)
    missing = tuple(name for name in expected if name not in paths)
    return ExportFiles(root=root, files=headers, missing=missing), faults


def _read_file(path: Path) -> tuple[SafetensorsFile | None, list[ForgepackError]]:
    if path.suffix != _SUFFIX:
        return None, file_faults(path)
    try:
        return inspect_safetensors(path)
    except ForgepackError as err:
        return None, [err]


def _name_faults(root: Path, paths: Sequence[str], expected: Sequence[str]) -> Iterator[ForgepackError]:
    there, wanted = set(paths), set(expected)
    missing = [name for name in expected if name not in there]
    if missing and len(missing) < len(expected):
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        yield _layers(str(root), f"{len(expected)} files of layers", f"without {', '.join(missing[:_SHOWN])}{more}")
    for path in paths:
        known = path in wanted or path == HEAD_FILE
        if path.endswith(_SUFFIX) and not known:
            last = expected[-1] if expected else "none"
            kind = "a layer that the target does not have" if _LAYER.fullmatch(path) else "a tensor file of no layer"
            yield _layers(str(root / path), f"{HEAD_FILE}, and layers up to {last}", kind)


def _exchanged(root: Path, layers: Mapping[str, SafetensorsFile]) -> Iterator[ForgepackError]:
    """Yield files of layers whose tensors have the names of the other kind, mixer or not, and of none of its own."""
    kinds: dict[bool, Counter[frozenset[str]]] = {False: Counter(), True: Counter()}
    for name, file in layers.items():
        kinds[name.endswith(_MIXER)][frozenset(file.tensors)] += 1
    for name, file in layers.items():
        mixer, names = name.endswith(_MIXER), frozenset(file.tensors)
        if kinds[mixer][names] == 1 and kinds[not mixer][names]:
            expected = "the tensors of a mixer" if mixer else "the tensors of a layer beside its mixer"
            yield _layers(str(root / name), expected, f"those of the other: {', '.join(sorted(names)[:_SHOWN])}")


def _layers(where: str, expected: str, found: str) -> CorruptError:
    what = "the export's files are not those of the target's layers"
    return CorruptError(what, where=where, expected=expected, found=found, code="export-layers")


def index_faults(root: Path, headers: Mapping[str, SafetensorsFile]) -> Iterator[ForgepackError]:
    """Yield where an index and the tensor files beside it disagree: each tensor in the file that it names, once."""
    path = root / INDEX_FILE
    try:
        raw = parse_object(read_bounded(path, JSON_BYTES), where=str(path))
    except ForgepackError:
        return  # reported with the form of the file
    stated = raw.get("weight_map")
    if not isinstance(stated, dict) or not all(isinstance(file, str) for file in stated.values()):
        yield _index(f"{path}: weight_map", "tensor -> file", repr(stated)[:80])
        return
    for tensor, file in stated.items():
        reason = unsafe_reason(file)
        if reason is not None:
            what, found = "a path of the index is not safe", f"{file[:80]!r} {reason}"
            yield CorruptError(what, where=f"{path}: {tensor}", found=found, code="path-escape")
        elif file not in headers:
            yield _index(f"{path}: {tensor}", "a tensor file beside the index", file)
        elif tensor not in headers[file].tensors:
            yield _index(f"{path}: {tensor}", f"a tensor of {file}", "not in it")
    yield from _unindexed(path, stated, headers)


def _unindexed(
    path: Path, stated: Mapping[str, Any], headers: Mapping[str, SafetensorsFile]
) -> Iterator[CorruptError]:
    for name, file in sorted(headers.items()):
        lost = [tensor for tensor in file.tensors if stated.get(tensor) != name]
        if lost:
            found = f"{len(lost)} tensors that it does not name there, the first {lost[0]!r}"
            yield _index(f"{path}: {name}", "every tensor of the file", found)


def _index(where: str, expected: str, found: str) -> CorruptError:
    what = "the index does not fit the tensor files beside it"
    return CorruptError(what, where=where, expected=expected, found=found, code="export-index")


def equal_layers(digests: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (first, other) of files that hold the same bytes; ``digests`` maps names to SHA-256."""
    first: dict[str, str] = {}
    for name in sorted(digests):
        other = first.setdefault(digests[name], name)
        if other != name:
            yield other, name


def zero_files(files: ExportFiles) -> Iterator[Path]:
    """Yield tensor files whose data are zeros alone; the head's are compared by content."""
    for name, file in sorted(files.files.items()):
        start = min((info.begin for info in file.tensors.values()), default=file.size)
        if name != HEAD_FILE and start < file.size and holds_zeros_alone(file.path, start):
            yield file.path


def nonfinite_tensors(files: ExportFiles) -> Iterator[tuple[Path, str, int, int]]:
    """Yield (file, tensor, how many, flat index of the first) where values are not finite; the head is not read.

    Every floating tensor is read whole: of a quantized layer these are tables, scales and gains.
    """
    for name, file in files.files.items():
        for tensor, info in sorted(file.tensors.items()) if name != HEAD_FILE else ():
            bad = find_nonfinite(file.array(tensor)) if info.dtype in DTYPES else None
            if bad is not None:
                yield file.path, tensor, *bad


def build_faults(root: Path, entries: Sequence[Entry], packages: Sequence[str]) -> list[ForgepackError]:
    """Return what is wrong with the form of each file of a build, the manifest and its packages apart.

    What a compiled package may hold is its compiler's: only pointers among its files are reported.
    """
    faults: list[ForgepackError] = []
    for entry in entries:
        top = entry.path.partition("/")[0]
        if entry.kind != "file" or top in packages or entry.path == MANIFEST_FILE or JUNK.search(entry.path):
            continue
        found = file_faults(root / entry.path)
        faults += [one for one in found if one.code == "lfs-pointer"] if top.endswith(COMPILED_SUFFIXES) else found
    return faults
