"""Strict JSON and canonical bytes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.canonical import digest_json, dump_canonical, dump_compact, parse_json, parse_object
from forgepack.errors import CorruptError, ForgepackError

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars.filter(lambda v: not (isinstance(v, str) and ("\x00" in v or any(0xD800 <= ord(c) < 0xE000 for c in v)))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(values)
def test_round_trip(value: Any) -> None:
    """What is written canonically is read back equal, in both forms."""
    assert value == parse_json(dump_canonical(value), where="x")
    assert value == parse_json(dump_compact(value), where="x")


@given(st.dictionaries(st.text(max_size=4), st.integers(), min_size=2))
def test_key_order_does_not_matter(value: dict[str, int]) -> None:
    """Two objects with the same content have one digest, whatever the order of their keys."""
    assert digest_json(value) == digest_json(dict(reversed(value.items())))


BAD: dict[str, tuple[bytes, str]] = {
    "duplicate key": (b'{"a":1,"a":2}', "json-duplicate-key"),
    "nested duplicate": (b'{"x":[{"taps":[1],"taps":[2]}]}', "json-duplicate-key"),
    "NaN": (b'{"a":NaN}', "json-nonstandard"),
    "Infinity": (b'{"a":-Infinity}', "json-nonstandard"),
    "overflow": (b'{"a":1e400}', "json-nonstandard"),
    "huge integer": (b'{"a":' + b"9" * 5000 + b"}", "json-nonstandard"),
    "BOM": (b'\xef\xbb\xbf{"a":1}', "json-encoding"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "json-encoding"),
    "UTF-16 without mark": ('{"a":1}'.encode("utf-16-le"), "json-encoding"),
    "not UTF-8": (b'{"a":"\xff"}', "json-encoding"),
    "half a surrogate pair": (b'{"a":"\\ud800"}', "json-encoding"),
    "half a pair as key": (b'{"\\uDFFF":1}', "json-encoding"),
    "trailing data": (b"{} {}", "json-syntax"),
    "empty": (b"", "json-syntax"),
    "cut": (b'{"a":', "json-syntax"),
    "deep list": (b"[" * 70 + b"]" * 70, "json-depth"),
    "very deep": (b"[" * 100_000, "json-depth"),
    "very deep object": (b'{"a":' * 50_000, "json-depth"),
}


@pytest.mark.parametrize("name", BAD)
def test_refuses(name: str) -> None:
    """Each kind of JSON that two parsers could read differently is refused with its own code."""
    data, code = BAD[name]
    with pytest.raises(CorruptError) as caught:
        parse_json(data, where="side.json")
    assert (code, True) == (caught.value.code, "side.json" in str(caught.value))


@given(st.binary(max_size=80))
def test_any_bytes_end_in_a_value_or_an_error_of_ours(data: bytes) -> None:
    """No input escapes as another exception."""
    try:
        value = parse_json(data, where="x")
    except ForgepackError:
        return
    assert not isinstance(value, float) or math.isfinite(value)


def test_an_object_is_demanded() -> None:
    """A file that must hold an object refuses a list, naming the type found."""
    with pytest.raises(CorruptError) as caught:
        parse_object(b"[1]", where="x")
    assert ("json-type", "list") == (caught.value.code, caught.value.found)
