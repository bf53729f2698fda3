"""Files at a reader's bound and just over it, of the shapes that cost the most memory a byte."""

from __future__ import annotations

import io
import itertools
import json
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

from forgepack import limits

Make = Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A file for one reader: ``codes`` are the error codes that it may end in, () for a value."""

    reader: str
    make: Make
    codes: tuple[str, ...]


def fill(item: bytes, count: int, head: bytes = b'{"a":[', tail: bytes = b"]}") -> bytes:
    """Return an object with a list of ``count`` items that are all alike."""
    return head + b",".join([item]) + (b"," + item) * (count - 1) + tail


def keys(count: int) -> bytes:
    """Return an object of ``count`` keys, no two alike."""
    return b"{" + b",".join(b'"k%x":0' % n for n in range(count)) + b"}"


def nested(depth: int) -> bytes:
    """Return lists in lists."""
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def chains(tokens: int) -> bytes:
    """Return objects of one key in each other, 60 deep, as often as the tokens allow."""
    one = b'{"a":' * 60 + b"1" + b"}" * 60
    return fill(one, tokens // 121 - 1)


def astral(size: int) -> bytes:
    """Return one text of that many bytes, each character of which takes four bytes once decoded."""
    return b'{"a":"' + b"x" * (size - 12) + "\U0001f600".encode() + b'"}'


_T = limits.JSON_TOKENS
JSON: dict[str, tuple[Make, tuple[str, ...]]] = {
    "empty lists": (lambda: fill(b"[]", _T // 2 - 4), ()),
    "one list too many": (lambda: fill(b"[]", _T // 2 + 4), ("json-tokens",)),
    "empty objects": (lambda: fill(b"{}", _T // 2 - 4), ()),
    "objects in objects": (lambda: chains(_T), ()),
    "texts of two letters": (lambda: fill('"éé"'.encode(), _T - 4), ()),
    "keys, no two alike": (lambda: keys(_T // 2 - 4), ()),
    "floats": (lambda: fill(b"1e-9", _T - 4), ()),
    "integers at the bound": (lambda: fill(b"9" * limits.JSON_DIGITS, 200_000), ()),
    "an integer over it": (lambda: b'{"a":' + b"9" * (limits.JSON_DIGITS + 1) + b"}", ("json-nonstandard",)),
    "a million digits": (lambda: b'{"a":-' + b"9" * 1_000_000 + b"}", ("json-nonstandard",)),
    "a float over all": (lambda: b'{"a":1e400}', ("json-nonstandard",)),
    "a text of all bytes": (lambda: astral(limits.JSON_BYTES), ()),
    "one byte too many": (lambda: astral(limits.JSON_BYTES + 1), ("json-size", "size-limit", "header-size")),
    "brackets in a text": (lambda: b'{"a":"' + b"[{,:" * (_T // 2) + b'"}', ()),
    "quotes escaped": (lambda: b'{"a":"' + rb"\\\"[,"[:] * (_T // 2) + b'"}', ()),
    "nested to the bound": (lambda: nested(limits.JSON_DEPTH), ()),
    "nested one deeper": (lambda: nested(limits.JSON_DEPTH + 1), ("json-depth",)),
    "nested without end": (lambda: b'{"a":' + b"[" * (_T // 2), ("json-depth",)),
    "16 MB of lists": (lambda: fill(b"[]", 5_500_000), ("json-tokens", "json-size", "header-size")),
    "escapes of surrogates": (lambda: fill(rb'"\ud83d\ude00"', 900_000), ()),
}


def header(text: bytes) -> bytes:
    """Return a safetensors file of that header."""
    return struct.pack("<Q", len(text)) + text


def tensors(count: int, axes: int = 2) -> bytes:
    """Return a header of ``count`` tensors of one byte."""
    shape = json.dumps([1] * axes, separators=(",", ":"))
    entries = (f'"t{n}":{{"dtype":"U8","shape":{shape},"data_offsets":[{n},{n + 1}]}}' for n in range(count))
    return header(("{" + ",".join(entries) + "}").encode()) + bytes(count)


def shaped(shape: list[int], size: int = 0) -> bytes:
    """Return a file of one tensor of that shape and of ``size`` bytes."""
    entry = {"dtype": "U8", "shape": shape, "data_offsets": [0, size]}
    return header(json.dumps({"t": entry}).encode()) + bytes(size)


def npy(shape: tuple[int, ...]) -> bytes:
    """Return the header of a NumPy array."""
    text = repr({"descr": "<i4", "fortran_order": False, "shape": shape}).replace("}", ", }").encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n"


def archive(arrays: dict[str, bytes]) -> bytes:
    """Return a zip archive of these members, packed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as pack:
        for name, data in arrays.items():
            pack.writestr(f"{name}.npy", data)
    return out.getvalue()


def sums(size: int) -> bytes:
    """Return lines of digests, the shortest paths first, up to ``size`` bytes."""
    lines = (b"%064x  %x\n" % (n, n) for n in itertools.count())
    out = bytearray()
    while len(out) < size - 90:
        out += next(lines)
    return bytes(out)


_SHAPES: dict[str, tuple[Make, tuple[str, ...]]] = {
    "eight dimensions": (lambda: shaped([1] * 8, 1), ()),
    "nine dimensions": (lambda: shaped([1] * 9, 1), ("tensor-shape-limit",)),
    "232 dimensions of 2^62-1": (lambda: shaped([(1 << 62) - 1] * 232), ("tensor-shape-limit",)),
    "100,000 dimensions": (lambda: shaped([(1 << 62) - 1] * 100_000), ("tensor-shape-limit",)),
    "a product over the bound": (lambda: shaped([1 << 31, 1 << 31]), ("tensor-shape-limit",)),
    "no elements": (lambda: shaped([0, (1 << 62) - 1, (1 << 62) - 1]), ()),
    "all tensors": (lambda: tensors(limits.TENSORS), ()),
    "one tensor too many": (lambda: tensors(limits.TENSORS + 1), ("tensor-count",)),
    "a million tensors": (lambda: tensors(1_000_000), ("header-size",)),
}
_ARRAYS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "eight dimensions": (lambda: archive({"a": npy((1,) * 8) + bytes(4)}), ()),
    "nine dimensions": (lambda: archive({"a": npy((1,) * 9) + bytes(4)}), ("npz",)),
    "sixty of twelve digits": (lambda: archive({"a": npy((10**11,) * 60)}), ("npz",)),
    "all members": (lambda: archive({f"a{n}": npy(()) + bytes(4) for n in range(limits.NPZ_MEMBERS)}), ()),
    "a member too many": (
        lambda: archive(dict.fromkeys(map(str, range(limits.NPZ_MEMBERS + 1)), b"")),
        ("npz-limit",),
    ),
}
_TOML: dict[str, tuple[Make, tuple[str, ...]]] = {
    "a key of 128 dots": (lambda: b".".join([b"a"] * 64) + b" = 1\n", ()),
    "a key of 500,000 parts": (lambda: b"a" + b".a" * 500_000 + b" = 1\n", ("toml-limit",)),
    "a table of 500,000 parts": (lambda: b"[a" + b".a" * 500_000 + b"]\n", ("toml-limit",)),
    "nested lists": (lambda: b"a = " + b"[" * 5_000, ("toml-syntax",)),
    "nested deeper than JSON": (lambda: b"a = " + b"[" * 70 + b"]" * 70, ("toml-depth",)),
    "an integer of 5,000 digits": (lambda: b"a = " + b"9" * 5_000, ("toml-syntax",)),
    "an integer of 100 digits": (lambda: b"a = " + b"9" * 100, ("toml-number",)),
    "hexadecimal without end": (lambda: b"a = 0x" + b"f" * 900_000, ("toml-number",)),
    "a float over all": (lambda: b"a = 1e400", ("toml-number",)),
    "empty lists": (lambda: b"a = [" + b"[]," * 300_000 + b"]", ()),
    "a byte too many": (lambda: b"#" * (limits.TOML_BYTES + 1), ("toml-limit",)),
    "a date of no year": (lambda: b"a = 0000-01-01", ("toml-syntax",)),
}
_SUMS: dict[str, tuple[Make, tuple[str, ...]]] = {"at the bound": (lambda: sums(limits.SUMS_BYTES), ())}
_MIL: dict[str, tuple[Make, tuple[str, ...]]] = {
    "all lines": (lambda: b"\n" * limits.MIL_LINES, ()),
    "short lines": (lambda: b"\n" * limits.MIL_BYTES, ("mil-limit",)),
    "kinds of operations": (
        lambda: (
            b"func main<ios18>() {\n"
            + b"".join(b"tensor<fp16, [1]> x = op%x(\n" % n for n in range(limits.MIL_BYTES // 40))
        ),
        (),
    ),
    "bytes that are no text": (lambda: b"\xff" * limits.MIL_BYTES, ()),
}


def inventory(file: bytes, count: int) -> bytes:
    """Return a release.json whose files are all alike."""
    head = b'{"schema_version":1,"model_path":"model","upstream_model":{"id":"a","revision":"b"},'
    runtimes = b'"runtimes":{"coreai":{"path":"coreai","contexts":[1024]}},'
    return fill(file, count, head + runtimes + b'"files":[')


_FILE = b'{"path":"a","component":"model","bytes":1,"sha256":"' + b"a" * 64 + b'"}'
_RELEASE: dict[str, tuple[Make, tuple[str, ...]]] = {
    "all files": (lambda: inventory(_FILE, 110_000), ()),
    "files that are empty": (lambda: inventory(b"{}", _T // 2 - 40), ("release",)),
    "files that are texts": (lambda: inventory(b'"x"', _T - 40), ("release",)),
    "keys, no two alike": (lambda: keys(_T // 2 - 4), ("release",)),
    "objects in objects": (lambda: inventory(b'{"path":' * 60 + b"1" + b"}" * 60, _T // 121 - 1), ("release",)),
    "a path of all bytes": (
        lambda: inventory(_FILE.replace(b'"a"', b'"' + b"a/" * (limits.RELEASE_BYTES // 2 - 200) + b'"'), 1),
        ("path-escape",),
    ),
}
_ENTRY = b'{"sha256":"' + b"a" * 64 + b'","reason":"x"}'
_SETTINGS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "all entries": (lambda: fill(_ENTRY, 100_000, b'{"deny":['), ()),
    "entries that are empty": (lambda: fill(b"{}", 99_000, b'{"deny":['), ("UsageError",)),
    "a reason without a word": (
        lambda: fill(_ENTRY.replace(b'"x"', b'"' + b" " * (limits.SETTINGS_BYTES - 200) + b'"'), 1, b'{"deny":['),
        ("UsageError",),
    ),
    "keys, no two alike": (lambda: keys(_T // 2 - 4), ("UsageError",)),
}
_MANIFEST: dict[str, tuple[Make, tuple[str, ...]]] = {
    "taps, all alike": (lambda: fill(b"1", _T - 40, b'{"taps":['), ("manifest",)),
    "too many chunks": (lambda: fill(b"{}", _T // 2 - 40, b'{"chunks":['), ("manifest",)),
}


def _of(reader: str, table: dict[str, tuple[Make, tuple[str, ...]]]) -> dict[str, Case]:
    return {f"{reader}: {name}": Case(reader=reader, make=make, codes=codes) for name, (make, codes) in table.items()}


def _headed(make: Make) -> Make:
    return lambda: header(make())


CASES: dict[str, Case] = {
    **_of("json", JSON),
    **_of("safetensors", _SHAPES),
    **_of("header", {name: (_headed(make), codes) for name, (make, codes) in JSON.items()}),
    **_of("npz", _ARRAYS),
    **_of("toml", _TOML),
    **_of("sums", _SUMS),
    **_of("mil", _MIL),
    **_of("release", _RELEASE),
    **_of("settings", _SETTINGS),
    **_of("manifest", _MANIFEST),
    **_of("tokenizer", {"empty lists": (lambda: fill(b"[]", limits.TOKENIZER_TOKENS // 2 - 4), ("tokenizer",))}),
}
# What a sample looks at: the row that was found, and the dearest shapes.
SAMPLE = (
    "safetensors: 232 dimensions of 2^62-1",
    "json: objects in objects",
    "json: 16 MB of lists",
    "npz: sixty of twelve digits",
    "toml: a key of 500,000 parts",
    "release: files that are empty",
)
