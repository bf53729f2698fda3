"""JSON read strictly and written canonically, and the digests taken of both.

Reading refuses what two parsers could read differently: duplicate keys, NaN and infinities, numbers that
overflow, a byte-order mark, UTF-16, trailing data, deep nesting. Writing sorts keys and ends in a newline, so
equal content is equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

from forgepack.errors import CorruptError, LimitError
from forgepack.limits import JSON_BYTES, JSON_DEPTH, JSON_DIGITS, JSON_TOKENS

Json = dict[str, Any] | list[Any] | str | int | float | bool | None

MAX_DEPTH = JSON_DEPTH
_STRUCTURAL = b"[{,:"
_BLOCK = 1 << 20
_DIGITS_AS_ZEROS = bytes(ord("0") if chr(byte).isdecimal() and byte < 128 else 0 for byte in range(256))
_LONG_RUN = b"0" * (JSON_DIGITS + 1)
# Half of a surrogate pair, written as an escape: a high one that no low one follows, or a low one by itself.
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF_PAIR = re.compile(rf"{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}")
_NESTING = frozenset({dict, list})
_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonBounds:
    """How large a JSON text may be, and how many brackets, commas and colons it may hold outside of its texts.

    Both are checked before anything is parsed: a value costs up to 130 times the bytes that say it.
    """

    size: int = JSON_BYTES
    tokens: int = JSON_TOKENS


DOCUMENT = JsonBounds()


def dump_canonical(value: Any) -> bytes:
    """Return ``value`` as indented UTF-8 JSON with sorted keys and a final newline; NaN raises ValueError."""
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8") + b"\n"


def dump_shown(value: Any) -> bytes:
    """Return ``dump_canonical`` of a value that may name files outside UTF-8: their bytes stand as JSON's escapes."""
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def dump_compact(value: Any) -> bytes:
    """Return ``value`` as one line of sorted, separator-tight UTF-8 JSON: the form that digests are taken of."""
    return _COMPACT.encode(value).encode("utf-8")


def sha256_hex(data: bytes | memoryview) -> str:
    """Return the SHA-256 of ``data`` as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Any) -> str:
    """Return the SHA-256 of the compact canonical form of ``value``."""
    return sha256_hex(dump_compact(value))


def digest_runs(values: Sequence[Any], step: int) -> tuple[str, ...]:
    """Return the digest of each run of ``step`` values: of a long list without one text of it all."""
    return tuple(digest_json(values[start : start + step]) for start in range(0, len(values), step))


def parse_json(data: bytes, *, where: str, bounds: JsonBounds = DOCUMENT) -> Any:
    """Parse strict JSON; raise CorruptError (code ``json-…``) or LimitError naming ``where``."""
    check_bounds(data, where=where, bounds=bounds)
    text = _decode(data, where)
    try:
        value = json.loads(text, **_hooks(data, where))
    except json.JSONDecodeError as err:
        found = f"{err.msg} at line {err.lineno} column {err.colno}"
        raise _corrupt("the file is not valid JSON", where, found=found, code="json-syntax") from err
    except RecursionError as err:
        found = f"over {MAX_DEPTH} levels"
        raise _corrupt("nested too deeply", where, found=found, code="json-depth") from err
    _check_depth(value, where)
    _check_surrogates(text, where)
    return value


def check_bounds(data: bytes, *, where: str, bounds: JsonBounds = DOCUMENT) -> None:
    """Raise LimitError (``json-size``, ``json-tokens``) for a text whose values may take too much memory."""
    for what, found, limit, code in (
        ("bytes", len(data), bounds.size, "json-size"),
        ("brackets, commas and colons", _count_tokens(data, bounds.tokens), bounds.tokens, "json-tokens"),
    ):
        if found > limit:
            raise LimitError(
                "the JSON file is over the limit",
                where=where,
                expected=f"at most {limit} {what}",
                found=f"{found} {what}",
                code=code,
            )


def _count_tokens(data: bytes, enough: int) -> int:
    """Return how many brackets, commas and colons stand outside of texts; a greater number up to ``enough``.

    Marks inside texts count apart from others only where all together are over the bound. From the first fault of
    syntax on the number may be wrong: no parser comes that far.
    """
    count = sum(map(data.count, (b"[", b"{", b",", b":")))
    if count <= enough:
        return count
    import numpy as np

    # Escapes go in the order in which a parser takes them, so each quote that is left opens or ends a text.
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    structural = np.isin(np.arange(256), list(_STRUCTURAL))
    inside, count = 0, 0
    for start in range(0, len(plain), _BLOCK):
        block = np.frombuffer(plain, np.uint8, min(_BLOCK, len(plain) - start), start)
        quotes = np.cumsum(block == ord('"'), dtype=np.uint8) + np.uint8(inside)
        count += int(np.count_nonzero(structural[block] & (quotes & 1 == 0)))
        inside = int(quotes[-1]) & 1
    return count


def _hooks(data: bytes, where: str) -> dict[str, Any]:
    """Return the parser's hooks that refuse what two JSON parsers could read differently.

    A hook for integers costs a call each; only a text that may hold too long a run of digits pays for it.
    """

    def refuse_constant(name: str) -> NoReturn:
        raise _corrupt("a value that JSON does not have", where, found=name, code="json-nonstandard")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            seen: set[str] = set()
            twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
            raise _corrupt("a JSON object has a key twice", where, found=repr(twice), code="json-duplicate-key")
        return out

    def finite(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise _corrupt("a number overflows", where, found=digits[:40], code="json-nonstandard")
        return value

    def bounded(digits: str) -> int:
        if len(digits.removeprefix("-")) > JSON_DIGITS:
            raise _corrupt("an integer is too long", where, found=f"{len(digits)} digits", code="json-nonstandard")
        return int(digits)

    hooks = {"object_pairs_hook": unique, "parse_constant": refuse_constant, "parse_float": finite}
    return {**hooks, "parse_int": bounded} if _LONG_RUN in data.translate(_DIGITS_AS_ZEROS) else hooks


def parse_object(data: bytes, *, where: str, bounds: JsonBounds = DOCUMENT) -> dict[str, Any]:
    """Parse strict JSON whose outermost value must be an object."""
    value = parse_json(data, where=where, bounds=bounds)
    if not isinstance(value, dict):
        raise _corrupt("the JSON file must hold one object", where, found=type(value).__name__, code="json-type")
    return value


def _corrupt(what: str, where: str, *, found: str, code: str) -> CorruptError:
    return CorruptError(what, where=where, found=found, code=code, hint="restore the file from its source")


def _decode(data: bytes, where: str) -> str:
    for mark, name in ((b"\xef\xbb\xbf", "UTF-8"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")):
        if data.startswith(mark):
            raise _corrupt("the file starts with a byte-order mark", where, found=name, code="json-encoding")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as err:
        found = f"byte {err.start} is not UTF-8"
        raise _corrupt("the file is not UTF-8", where, found=found, code="json-encoding") from err
    if "\x00" in text:
        raise _corrupt("the file holds NUL bytes", where, found="NUL", code="json-encoding")
    return text


def _check_surrogates(text: str, where: str) -> None:
    """Refuse half of a surrogate pair: no UTF-8 file could hold that text again."""
    if re.search(r"\\u[dD][89a-fA-F]", text) is None:
        return
    half = _HALF_PAIR.search(text.replace(r"\\", "  "))  # a backslash that is escaped begins no escape
    if half is not None:
        raise _corrupt("half of a surrogate pair", where, found=half[0], code="json-encoding")


def _check_depth(value: Any, where: str) -> None:
    """Refuse nesting over MAX_DEPTH, so that no later walk over the value can overflow the stack."""
    level = [value] if type(value) in _NESTING else []
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _corrupt("nested too deeply", where, found=f"over {MAX_DEPTH} levels", code="json-depth")
        inner = [node.values() if type(node) is dict else node for node in level]
        # The widest level is the last, and has no child that is looked at one by one.
        last = _NESTING.isdisjoint(map(type, chain.from_iterable(inner)))
        level = [] if last else [child for child in chain.from_iterable(inner) if type(child) in _NESTING]
