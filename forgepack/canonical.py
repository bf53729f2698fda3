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
from itertools import chain
from typing import Any, NoReturn

from forgepack.errors import CorruptError, LimitError

Json = dict[str, Any] | list[Any] | str | int | float | bool | None

MAX_DEPTH = 64
MAX_JSON_BYTES = 64 << 20
_MAX_DIGITS = 4300
# A run of more than _MAX_DIGITS digits holds a place divisible by _STRIDE with as many digits after it.
_STRIDE = _MAX_DIGITS // 2
_DIGITS = re.compile(rf"[0-9]{{{_STRIDE}}}")
_NESTING = frozenset({dict, list})
_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def dump_canonical(value: Any) -> bytes:
    """Return ``value`` as indented UTF-8 JSON with sorted keys and a final newline; NaN raises ValueError."""
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8") + b"\n"


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


def parse_json(data: bytes, *, where: str) -> Any:
    """Parse strict JSON; raise CorruptError (code ``json-…``) or LimitError naming ``where``."""
    if len(data) > MAX_JSON_BYTES:
        raise LimitError(
            "the JSON file is over the limit",
            where=where,
            expected=f"at most {MAX_JSON_BYTES} bytes",
            found=f"{len(data)} bytes",
            code="json-size",
        )
    text = _decode(data, where)

    try:
        value = json.loads(text, **_hooks(text, where))
    except json.JSONDecodeError as err:
        found = f"{err.msg} at line {err.lineno} column {err.colno}"
        raise _corrupt("the file is not valid JSON", where, found=found, code="json-syntax") from err
    except RecursionError as err:
        found = f"over {MAX_DEPTH} levels"
        raise _corrupt("nested too deeply", where, found=found, code="json-depth") from err
    _check_depth(value, where)
    _check_surrogates(text, value, where)
    return value


def _hooks(text: str, where: str) -> dict[str, Any]:
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
        if len(digits) > _MAX_DIGITS:
            raise _corrupt("an integer is too long", where, found=f"{len(digits)} digits", code="json-nonstandard")
        return int(digits)

    hooks = {"object_pairs_hook": unique, "parse_constant": refuse_constant, "parse_float": finite}
    long_number = any(_DIGITS.match(text, place) for place in range(0, len(text), _STRIDE))
    return {**hooks, "parse_int": bounded} if long_number else hooks


def parse_object(data: bytes, *, where: str) -> dict[str, Any]:
    """Parse strict JSON whose outermost value must be an object."""
    value = parse_json(data, where=where)
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


def _check_surrogates(text: str, value: Any, where: str) -> None:
    """Refuse half of a surrogate pair: no UTF-8 file could hold that text again."""
    if re.search(r"\\u[dD][89a-fA-F]", text) is None:
        return
    try:
        dump_compact(value)
    except UnicodeEncodeError as err:
        raise _corrupt(
            "half of a surrogate pair", where, found=ascii(err.object[err.start]), code="json-encoding"
        ) from err


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
