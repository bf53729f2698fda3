"""Differences of two JSON values: each leaf by its path; lists of taps and of tokens by what happened to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forgepack.artifacts.tokenizer import Tokenizer, first_difference
from forgepack.facts.fact import ABSENT
from forgepack.json_values import equal_json_strict
from forgepack.release.diff.values import Difference
from forgepack.verify.checks.taps import classify, describe, integers
from forgepack.verify.findings.compare import shown

_TAP_KEYS = ("target_layer_ids", "taps", "layer_ids", "hf_hidden_states")
# A target's number of layers is not known here, and no list of taps comes near this.
_LAYERS = 1 << 16
_SHOWN = 120


def json_differences(left: Any, right: Any, file: str) -> Iterator[Difference]:
    """Yield the leaves in which two JSON values differ, types included; what one side lacks is None."""
    for path, one, other in _leaves(left, right, ""):
        if _is_taps(path, one, other):
            yield _taps(path, one, other, file)
        else:
            yield Difference(kind="field", file=file, place=path, left=text(one), right=text(other))


def text(value: Any) -> str | None:
    """Return a value as a short text; None for the absence of one."""
    if value is ABSENT:
        return None
    out = "null" if value is None else shown(value)
    return out if len(out) <= _SHOWN else out[: _SHOWN - 3] + "..."


def _leaves(left: Any, right: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in sorted({*left, *right}):
            here = f"{path}.{key}" if path else str(key)
            yield from _leaves(left.get(key, ABSENT), right.get(key, ABSENT), here)
    elif _objects(left) and _objects(right):
        yield from _listed(left, right, path)
    elif not equal_json_strict(left, right):
        yield path, left, right


def _objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _listed(
    left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]], path: str
) -> Iterator[tuple[str, Any, Any]]:
    """Pair lists of objects by ``path``, ``file`` or ``id`` where every item has one of its own, else by place."""
    key = next((k for k in ("path", "file", "id") if _names(left, k) and _names(right, k)), None)
    if key is None:
        for place in range(max(len(left), len(right))):
            sides = [side[place] if place < len(side) else ABSENT for side in (left, right)]
            yield from _leaves(sides[0], sides[1], f"{path}[{place}]")
        return
    named = [{str(item[key]): item for item in side} for side in (left, right)]
    if set(named[0]) == set(named[1]) and list(named[0]) != list(named[1]):
        yield f"{path} (order)", list(named[0]), list(named[1])
    for name in sorted({*named[0], *named[1]}):
        yield from _leaves(named[0].get(name, ABSENT), named[1].get(name, ABSENT), f"{path}[{name}]")


def _names(items: Sequence[Mapping[str, Any]], key: str) -> bool:
    found = [item.get(key) for item in items]
    return all(isinstance(name, str | int) for name in found) and len({str(n) for n in found}) == len(found)


def _is_taps(path: str, left: Any, right: Any) -> bool:
    return path.rsplit(".", maxsplit=1)[-1] in _TAP_KEYS and integers(left) and integers(right)


def _taps(path: str, left: list[int], right: list[int], file: str) -> Difference:
    kind = classify(right, left, _LAYERS)
    note = describe(kind, right, left, _LAYERS)
    if kind == "order":
        order = str([left.index(n) for n in right])
        note = note if order in note else f"{note}; permutation {order}"
    return Difference(kind="taps", file=file, place=path, left=text(left), right=text(right), note=note)


def tokenizer_differences(left: Tokenizer, right: Tokenizer, file: str) -> Iterator[Difference]:
    """Yield the first id that two tokenizers decode differently, and what else is not the same in their meaning."""
    found = first_difference(left, right)
    if found is not None:
        first, one, other, count = found
        sides = [None if side is None else repr(side) for side in (one, other)]
        note = f"the first of {count} ids that differ"
        yield Difference(kind="tokens", file=file, place=f"id {first}", left=sides[0], right=sides[1], note=note)
    elif left.semantic_sha256 != right.semantic_sha256:
        sides = [left.semantic_sha256, right.semantic_sha256]
        note = "every id decodes alike; merges, pipeline or properties of added tokens differ"
        yield Difference(kind="tokens", file=file, place="meaning", left=sides[0], right=sides[1], note=note)
    else:
        note = "the same tokens, merges and pipeline, written otherwise"
        yield Difference(kind="bytes", file=file, place="", left=left.sha256, right=right.sha256, note=note)
