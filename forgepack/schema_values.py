"""Keywords of JSON Schema that check a value by itself: type, set, range, length and pattern.

Each takes what the schema states and returns a function that says whether a value holds it. As in JSON Schema, a
keyword about numbers says nothing of a text, and so on: the type is a keyword of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from forgepack.canonical import dump_compact

Predicate = Callable[[Any], bool]
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    # Written as such: 8.0 fails where something is counted, and True is not 1.
    "integer": (int,),
    "number": (int, float),
}


def all_hold(predicates: Sequence[Predicate]) -> Predicate:
    """Return one function for all: nested, for a loop over them costs more than they do."""
    if not predicates:
        return lambda _: True
    return reduce(lambda first, second: lambda value: first(value) and second(value), predicates)


def _of_type(stated: str | list[str]) -> Predicate:
    names = [stated] if isinstance(stated, str) else stated
    kinds = frozenset(kind for name in names for kind in _TYPES[name])
    return lambda value: type(value) in kinds


def _equal(stated: Any) -> Predicate:
    return lambda value: type(value) is type(stated) and value == stated


def _among(stated: list[Any]) -> Predicate:
    known = frozenset((type(one), one) for one in stated)
    return lambda value: type(value) not in (dict, list) and (type(value), value) in known


def _matching(stated: str) -> Predicate:
    search = re.compile(stated).search
    return lambda value: type(value) is not str or search(value) is not None


def _sized(kind: type[Any], fits: Callable[[int, Any], bool]) -> Callable[[Any], Predicate]:
    return lambda bound: lambda value: type(value) is not kind or fits(len(value), bound)


def _ranged(fits: Callable[[Any, Any], bool]) -> Callable[[Any], Predicate]:
    return lambda bound: lambda value: type(value) not in (int, float) or fits(value, bound)


def _distinct(stated: bool) -> Predicate:
    if not stated:
        return lambda _: True
    return lambda value: type(value) is not list or len(set(map(dump_compact, value))) == len(value)


VALUE_KEYWORDS: Mapping[str, Callable[[Any], Predicate]] = {
    "type": _of_type,
    "const": _equal,
    "enum": _among,
    "pattern": _matching,
    "minLength": _sized(str, lambda size, bound: size >= bound),
    "maxLength": _sized(str, lambda size, bound: size <= bound),
    "minItems": _sized(list, lambda size, bound: size >= bound),
    "maxItems": _sized(list, lambda size, bound: size <= bound),
    "uniqueItems": _distinct,
    "minProperties": _sized(dict, lambda size, bound: size >= bound),
    "minimum": _ranged(lambda value, bound: value >= bound),
    "maximum": _ranged(lambda value, bound: value <= bound),
    "exclusiveMinimum": _ranged(lambda value, bound: value > bound),
    "exclusiveMaximum": _ranged(lambda value, bound: value < bound),
}
