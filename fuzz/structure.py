"""Damage that keeps a file's frame: JSON stays JSON, tensors and arrays keep lengths that fit.

Bytes changed at random seldom leave JSON that parses, so a fuzzer that only does that never gets past the parser.
"""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import zipfile
from collections.abc import Iterator
from typing import Any

from fuzz.damage import damaged

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 8, 2**31, 2**63, 2**64, -(2**63), 10**40),
    *(0.5, -0.0, 1e-320, 1e308, 1.0, 8.0),
    *("", "x", ".", "..", "/", "a/../b", "C:\\x", "con", "\x00", "\x1b[2J", "\u202e", "0" * 64, "x" * 5000),
    *([], {}, [[]], [None], [0, 0], {"": 0}, [{}], {"a": {"a": {"a": 1}}}, [1e5] * 3),
)
_PARSE_LIMIT = 1 << 20
Place = tuple[Any, Any]


def reshaped(data: bytes, seed: int) -> bytes:
    """Return a damaged form that still has the frame of its format, or any damage where it had none."""
    rng = random.Random(seed)  # noqa: S311  (reproducible damage, no secret)
    for change in (_json, _tensors, _archive):
        changed = change(data, rng)
        if changed is not None:
            return changed
    return damaged(data, seed)


def _json(data: bytes, rng: random.Random) -> bytes | None:
    value = _parsed(data)
    return None if value is None else _text(_edited(value, rng))


def _parsed(data: bytes) -> Any:
    try:
        value = json.loads(data) if data[:1] in b"{[" and len(data) < _PARSE_LIMIT else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _text(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, indent=None).encode("utf-8")
    except (UnicodeEncodeError, RecursionError):
        return b"{}"


def _edited(value: Any, rng: random.Random) -> Any:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            return value
        _edit(*rng.choice(places), places, rng)
    return value


def _places(root: Any) -> Iterator[Place]:
    """Yield (container, key) of every value below ``root``."""
    pending = [root]
    while pending:
        node = pending.pop()
        for key, child in list(node.items() if isinstance(node, dict) else enumerate(node)):
            yield node, key
            if isinstance(child, dict | list):
                pending.append(child)


def _edit(node: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    kind = rng.randrange(7)
    if kind == 0:
        del node[key]
    elif kind == 1:
        other, place = rng.choice(places)
        node[key] = json.loads(json.dumps(other[place]))
    elif kind == 2 and isinstance(node, dict):
        node[rng.choice(("", "x", "schema", "\u202e", f"{key}_", "__metadata__"))] = node[key]
    elif kind == 2:
        node.insert(rng.randrange(len(node)), node[key])
    elif kind == 3 and isinstance(node[key], int | float):
        node[key] += rng.choice((1, -1, 0.5, 1 << 40))
    elif kind == 4 and isinstance(node[key], str) and node[key]:
        node[key] = node[key][:-1] + rng.choice(("", "0", "\u00e9", " ", "/"))
    else:
        node[key] = copy.deepcopy(rng.choice(_VALUES))


def _tensors(data: bytes, rng: random.Random) -> bytes | None:
    """Change a safetensors header and state its length anew."""
    if len(data) < 9 or struct.unpack("<Q", data[:8])[0] > len(data) - 8:
        return None
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = _parsed(data[8:end])
    if header is None:
        return None
    text = _text(_edited(header, rng)) + b" " * rng.choice((0, 0, 1, 7))
    return struct.pack("<Q", len(text)) + text + data[end : len(data) - rng.choice((0, 0, 0, 1))]


def _archive(data: bytes, rng: random.Random) -> bytes | None:
    """Damage one member of a zip archive, and pack it again with a sum that fits."""
    if not data.startswith(b"PK\x03\x04"):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()[:64]]
    except (zipfile.BadZipFile, ValueError, OSError, RuntimeError, EOFError, NotImplementedError):
        return None
    except Exception:  # noqa: BLE001  (zlib and struct errors of damaged archives)
        return None
    if not members:
        return None
    chosen = rng.randrange(len(members))
    name, content = members[chosen]
    kind = rng.randrange(5)
    if kind == 0:
        del members[chosen]
    elif kind == 1:
        members[chosen] = (rng.choice((f"{name}x", "m_0.npy", "tokens_1.npy", "../x.npy", "x")), content)
    else:
        members[chosen] = (name, damaged(content, rng.randrange(1 << 30)))
    out = io.BytesIO()
    packing = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(out, "w", packing) as archive:
        for member, body in dict(members).items():
            archive.writestr(member, body)
    return out.getvalue()
