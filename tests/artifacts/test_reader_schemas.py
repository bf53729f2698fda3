"""Every reader judges by its shipped schema: it refuses what another implementation of JSON Schema refuses by it.

The changes come from the documents: each key is dropped, each value replaced by others, each object given one key
more. What a reader refuses and the schema takes is one of the few things that no schema can say.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forgepack.resources import schema_names
from forgepack.schema_check import schema_faults
from tests.artifacts.reader_documents import DOCUMENTS, WITHOUT_READER
from tests.schemas import is_refused
from tests.verify.conftest import base
from tests.verify.factory import tiny_profile

__all__ = ["base"]

SAMPLE = 120
Keys = tuple[str | int, ...]
_ABSENT = object()
_STRANGE: tuple[Any, ...] = (None, True, -1, 0, 1.5, 10**20, "", "x", "a/../b", "é\n", [], ["x"], {}, {"x": 1})


def places(value: Any, keys: Keys = (), seen: set[Any] | None = None) -> Iterator[tuple[Keys, Any]]:
    """Yield the places of a document; of objects with the same keys, and of a list's items, one alone."""
    seen = set() if seen is None else seen
    yield keys, value
    items: list[tuple[str | int, Any]] = list(value.items()) if isinstance(value, dict) else []
    form = (len(keys), tuple(sorted(value)), tuple(type(item) for _, item in items)) if items else None
    if form is not None and form in seen:
        return
    seen.add(form)
    for key, item in items or list(enumerate(value[:1] if isinstance(value, list) else ())):
        yield from places(item, (*keys, key), seen)


def changes(value: Any) -> Iterator[Any]:
    """Yield what is put in place of a value: another type, out of range, another pattern, a key or an item more."""
    yield from (_ABSENT, *_STRANGE)
    if isinstance(value, str):
        yield from (f"{value}\n", value.upper(), value[:-1], f"{value}/", "0" * 64, "0" * 40)
    elif isinstance(value, dict):
        yield {**value, "unknown": 1}
    elif isinstance(value, list):
        yield value + value[:1]
    elif type(value) in (int, float):
        yield from (-value - 1, value + 0.5, str(value), [value])


def changed(raw: dict[str, Any], keys: Keys, value: Any) -> dict[str, Any]:
    """Return a document with one value replaced, or absent."""
    out = copy.deepcopy(raw)
    node: Any = out
    for key in keys[:-1]:
        node = node[key]
    if value is _ABSENT:
        del node[keys[-1]]
    else:
        node[keys[-1]] = value
    return out


def mutants(raw: dict[str, Any]) -> list[tuple[Keys, Any]]:
    """Return (place, value) of every change of a document."""
    found = [(keys, value) for keys, old in places(raw) if keys for value in changes(old)]
    return [*found, (("unknown",), 1)]


def test_every_shipped_schema_has_a_reader_here() -> None:
    """A new schema comes with a reader, or says why there is none."""
    assert sorted([*DOCUMENTS, *WITHOUT_READER]) == schema_names()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_reader_refuses_what_the_schema_refuses(base: Path, tmp_path: Path, name: str, whole: bool) -> None:
    """A valid document is read; a changed one is refused by both or by neither, but for what no schema can say."""
    document, profile = DOCUMENTS[name], tiny_profile()
    good = document.valid(base, profile)
    assert (None, False) == (document.refusal(good, tmp_path, profile), is_refused(good, name))
    every = mutants(good)
    refused = 0
    for keys, value in every if whole else random.Random(name).sample(every, min(SAMPLE, len(every))):
        raw = document.signed(changed(good, keys, value))
        expected, found = is_refused(raw, name), document.refusal(raw, tmp_path, profile)
        if not expected and found is not None:
            assert any(word in found for word in document.beyond), (keys, value, found)
        else:
            assert expected == (found is not None), (keys, value, found)
        refused += expected
    assert refused


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_refusal_says_what_is_expected_and_found(base: Path, name: str) -> None:
    """Each fault names its place, what is expected in words and what stands there, each on one short line."""
    good = DOCUMENTS[name].valid(base, tiny_profile())
    for keys, value in random.Random(name).sample(mutants(good), 40):
        for fault in schema_faults(changed(good, keys, value), name):
            assert fault.path.startswith("$")
            assert fault.expected
            assert fault.found
            assert max(len(fault.found), len(fault.expected)) <= 250
            assert "\n" not in fault.expected + fault.found


def test_an_unknown_key_is_answered_with_the_closest_known_one(base: Path, tmp_path: Path) -> None:
    """A typing error in a file that people write is answered in the house's way, at its place."""
    document, profile = DOCUMENTS["profile"], tiny_profile()
    good = document.valid(base, profile)
    good["recipe"]["mask_scales"] = good["recipe"].pop("mask_scale")
    text = str(document.refusal(good, tmp_path, profile))
    assert "recipe.mask_scale" in text
    (fault,) = (one for one in schema_faults(good, "profile") if one.kind == "unknown")
    assert ("$.recipe.mask_scales", "did you mean mask_scale?") == (fault.path, fault.hint)


@pytest.mark.parametrize("name", schema_names())
def test_every_schema_is_compiled(name: str) -> None:
    """No shipped schema uses a keyword that is not judged, and none takes an empty object."""
    assert schema_faults({}, name) or name == "forgepack_toml"
