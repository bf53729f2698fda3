"""What is wrong with a list of taps: the kinds of fault that shapes can't reveal, distinguished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from forgepack.json_values import lookup
from forgepack.verify.inputs.pair import Pair

Kind = Literal["missing", "type", "negative", "range", "duplicate", "count", "shifted", "order", "values", "equal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TapStatement:
    """A list of taps as one file states it; ``offset`` is what the convention adds to a 0-based layer id."""

    where: str
    stated: Any
    offset: int = 0

    @property
    def zero_based(self) -> Any:
        """The stated ids as 0-based layers; as stated when they are not a list of integers."""
        if not integers(self.stated):
            return self.stated
        return [n - self.offset for n in self.stated]


def integers(value: Any) -> bool:
    """Whether a value is a list of integers, booleans not counted."""
    return isinstance(value, list | tuple) and all(type(n) is int for n in value)


def classify(found: Any, expected: Sequence[int], layers: int) -> Kind:
    """Name the one kind of fault of ``found`` (0-based ids) against ``expected`` on a target of ``layers``."""
    if found is None:
        return "missing"
    if not integers(found):
        return "type"
    if list(found) == list(expected):
        return "equal"
    shift = {f - e for f, e in zip(found, expected, strict=False)}
    if len(found) == len(expected) and shift in ({1}, {-1}):
        return "shifted"
    return _kind_of_values(list(found), list(expected), layers)


def _kind_of_values(found: list[int], expected: list[int], layers: int) -> Kind:
    if min(found, default=0) < 0:
        return "negative"
    if max(found, default=0) >= layers:
        return "range"
    if len(set(found)) != len(found):
        return "duplicate"
    if len(found) != len(expected):
        return "count"
    return "order" if sorted(found) == sorted(expected) else "values"


def describe(kind: Kind, found: Any, expected: Sequence[int], layers: int) -> str:
    """Say in one sentence what the kind of fault means for this list."""
    if kind == "missing":
        return "the list is not there; it is never derived, since a guess fits the shapes just as well"
    if kind == "type":
        return "not a list of layer ids"
    ids = list(found)
    if kind == "shifted":
        return _describe_shift(ids[0] - expected[0])
    if kind == "order":
        return _describe_order(ids, list(expected))
    return _describe_ids(kind, ids, expected, layers)


def _describe_ids(kind: Kind, ids: list[int], expected: Sequence[int], layers: int) -> str:
    if kind == "negative":
        return f"id {min(ids)} is negative: it would be read from the end"
    if kind == "range":
        return f"id {max(ids)} is not below {layers} layers: it needs a target of at least {max(ids) + 1}"
    if kind == "duplicate":
        twice = next(n for n in ids if ids.count(n) > 1)
        return f"id {twice} is listed twice"
    if kind == "count":
        return f"{len(ids)} ids where {len(expected)} are demanded"
    place = next((n for n, (f, e) in enumerate(zip(ids, expected, strict=False)) if f != e), 0)
    return f"the lists differ first at place {place}; shapes cannot reveal this"


def _describe_shift(shift: int) -> str:
    return (
        f"all ids differ by exactly {shift:+d}: the output of layer i (0-based, this contract) was mixed up with "
        "the input of a layer or with Hugging Face hidden_states[i+1]"
    )


def _describe_order(found: list[int], expected: list[int]) -> str:
    if found == sorted(expected, key=str):
        return "the same ids sorted as text; fc was trained on the numbers' own order"
    if found == expected[::-1]:
        return "the same ids reversed; fc was trained on their order"
    places = [expected.index(n) for n in found]
    return f"the same ids in the order {places}; fc was trained on their order, and shapes cannot reveal this"


def statements(pair: Pair) -> Iterator[TapStatement]:
    """Yield every statement of the taps that can be read: config, manifest, and the sidecar's binding."""
    if pair.config.available:
        where = pair.place(pair.config.value.path, "dflash_config.target_layer_ids")
        yield TapStatement(where=where, stated=pair.config.value.taps)
    if pair.checkpoint_config.available:
        where = pair.place(pair.checkpoint_config.value.path, "dflash_config.target_layer_ids")
        yield TapStatement(where=where, stated=pair.checkpoint_config.value.taps)
    if pair.manifest.available:
        yield TapStatement(where=pair.place(pair.manifest.value.path, "taps"), stated=pair.manifest.value.taps)
    if pair.binding.available:
        taps = lookup(pair.binding.value, "target.taps")
        for key, offset in (("layer_ids", 0), ("hf_hidden_states", 1)):
            where = pair.place(pair.layout.sidecar, f"forgepack.target.taps.{key}")
            yield TapStatement(where=where, stated=lookup(taps, key), offset=offset)
