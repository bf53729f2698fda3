"""Seeded damage: one number gives one damaged file, the same for ever."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_TOKENS = (
    *(
        b"null",
        b"true",
        b"-1",
        b"0",
        b"1e999",
        b"-0",
        b"1.5",
        b'""',
        b"[]",
        b"{}",
        b'"\\ud800"',
        b'"\\u0000"',
        b"NaN",
    ),
    *(
        b"99999999999999999999999999",
        b"[[[[[[[[]]]]]]]]",
        b'{"a":{"a":{"a":1}}}',
        b'"../../x"',
        b"18446744073709551616",
        b"9" * 65,
        b"[1,1,1,1,1,1,1,1,1]",
        b"[4611686018427387903,4611686018427387903]",
        b"[" * 70 + b"]" * 70,
    ),
)
_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+|true|false|null')


def _flip(data: bytearray, rng: random.Random) -> bytearray:
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def _cut(data: bytearray, rng: random.Random) -> bytearray:
    return data[: rng.randrange(len(data))]


def _remove(data: bytearray, rng: random.Random) -> bytearray:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice((1, 4, 64)) :]


def _repeat(data: bytearray, rng: random.Random) -> bytearray:
    start = rng.randrange(len(data))
    part = data[start : start + rng.choice((1, 8, 128))]
    return data[:start] + part * rng.choice((2, 3, 200)) + data[start:]


def _noise(data: bytearray, rng: random.Random) -> bytearray:
    start = rng.randrange(len(data))
    return data[:start] + rng.randbytes(rng.choice((1, 8, 64))) + data[start:]


def _token(data: bytearray, rng: random.Random) -> bytearray:
    """Put another JSON value in the place of one; in a binary file this is noise like any other."""
    places = [match.span() for match in _VALUE.finditer(bytes(data[:100_000]))]
    if not places:
        return _flip(data, rng)
    start, end = rng.choice(places)
    return data[:start] + rng.choice(_TOKENS) + data[end:]


def _number(data: bytearray, rng: random.Random) -> bytearray:
    start = rng.randrange(max(1, min(len(data), 256)))
    data[start : start + 8] = rng.choice((bytes(8), b"\xff" * 8, (1 << rng.randrange(63)).to_bytes(8, "little")))
    return data


_KINDS: tuple[Callable[[bytearray, random.Random], bytearray], ...] = (
    *(_flip, _cut, _remove, _repeat, _noise, _number),
    *(_token, _token, _token, _token),
)


def damaged(good: bytes, seed: int) -> bytes:
    """Return the damaged form of a good file that belongs to a seed."""
    rng = random.Random(seed)  # noqa: S311  (reproducible damage, no secret)
    data = bytearray(good)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if data:
            data = rng.choice(_KINDS)(data, rng)
    return bytes(data)
