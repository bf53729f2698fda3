"""Check a JSON value by one of the schemas that ship with the tool.

The schemas use a part of JSON Schema 2020-12. It is compiled to functions here and needs no package, so a command
that reads headers alone starts at once, and a release of 100,000 files is checked in two seconds. A keyword beyond
that part is an error when its schema is compiled, never a check left out. Tests compare what this file refuses with
what another implementation refuses.
"""

from __future__ import annotations

import functools
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

from forgepack.canonical import parse_object
from forgepack.closest import did_you_mean
from forgepack.resources import schema_path
from forgepack.schema_values import VALUE_KEYWORDS, Predicate, all_hold
from forgepack.schema_words import words_of

MAX_FAULTS = 100
_ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description"})
_CONTAINERS = frozenset({"properties", "patternProperties", "additionalProperties", "required", "propertyNames"})
_CHOICES = ("anyOf", "oneOf")
_KNOWN = _ANNOTATIONS | _CONTAINERS | VALUE_KEYWORDS.keys() | {*_CHOICES, "allOf", "items", "$ref"}
_PLAIN_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_NOTHING = object()
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 80
_SHOWN.maxlevel = 3

Keys = tuple[str | int, ...]
Fault = Literal["value", "missing", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """One place where a value is not what its schema says: ``keys`` and numbers lead to it.

    ``kind`` names a key that is missing, one that is unknown (``hint`` then asks for the closest known one) and a
    value of another form; ``value`` is what stands there, None for a missing key.
    """

    keys: Keys
    kind: Fault
    expected: str
    found: str
    value: Any
    hint: str | None = None

    @property
    def path(self) -> str:
        """The place as a JSON path, ``$`` first."""
        joint = "" if not self.keys or self.field.startswith("[") else "."
        return f"${joint}{self.field}"

    @property
    def field(self) -> str:
        """The place without the root: how a message names it behind the file."""
        return field_of(self.keys)


class _Found(NamedTuple):
    """A fault below some value: keys and indices that lead to it, ``known`` the keys that an unknown one is not."""

    keys: Keys
    kind: Fault
    expected: str
    value: Any
    known: Sequence[str] = ()

    def below(self, key: str | int) -> _Found:
        return self._replace(keys=(key, *self.keys))

    def fault(self) -> SchemaFault:
        """Return the fault as others see it."""
        missing = self.value is _NOTHING
        return SchemaFault(
            keys=self.keys,
            kind=self.kind,
            expected=self.expected,
            found="nothing" if missing else _SHOWN.repr(self.value)[:80],
            value=None if missing else self.value,
            hint=did_you_mean(str(self.keys[-1]), self.known, otherwise="") or None if self.known else None,
        )


Walk = Callable[[Any], Iterator[_Found]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A compiled schema: ``holds`` checks the value itself, ``walks`` yield the faults below it."""

    words: str
    holds: Predicate
    walks: tuple[Walk, ...]

    def faults(self, value: Any) -> Iterator[_Found]:
        if not self.holds(value):
            yield _Found((), "value", self.words, value)
            return
        for walk in self.walks:
            yield from walk(value)


def schema_faults(value: Any, name: str, *, most: int | None = MAX_FAULTS) -> tuple[SchemaFault, ...]:
    """Return the faults of ``value`` under the schema ``name``, the first ``most`` of them sorted by path.

    An integer is one that is written as such: JSON Schema would take 8.0, which fails where something is counted.
    """
    faults = [found.fault() for found in islice(_schema(name).faults(value), most)]
    return tuple(sorted(faults, key=lambda fault: (fault.path, fault.expected)))


@functools.cache
def _schema(name: str) -> _Node:
    path = schema_path(name)
    raw = parse_object(path.read_bytes(), where=str(path))
    return _Compiler(raw.get("$defs", {})).node(raw)


def field_of(keys: Keys) -> str:
    """Return a JSON path without its root; a key that is not a plain name stands in brackets and quotes."""
    parts = []
    for key in keys:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif _PLAIN_KEY.fullmatch(key):
            parts.append(f".{key}")
        else:
            escaped = key.replace("\\", "\\\\").replace("'", "\\'")
            parts.append(f"['{escaped}']")
    return "".join(parts).removeprefix(".")


class _Compiler:
    """Compiles the schemas of one document; a definition is compiled once."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._compiled: dict[str, _Node] = {}

    def node(self, schema: Any) -> _Node:
        """Return the compiled form of a schema; ValueError for a keyword that is not compiled."""
        if schema is True:
            return _Node(words="", holds=lambda _: True, walks=())
        unknown = sorted(set(schema) - _KNOWN)
        if unknown:
            raise ValueError(f"a keyword of JSON Schema that is not compiled: {unknown[0]}")
        parts = [self._reference(schema["$ref"])] if "$ref" in schema else []
        parts += [self.node(part) for part in schema.get("allOf", ())]
        parts.append(self._own(schema))
        return _Node(
            words=next((part.words for part in parts if part.words), ""),
            holds=all_hold([part.holds for part in parts]),
            walks=tuple(walk for part in parts for walk in part.walks),
        )

    def _reference(self, ref: str) -> _Node:
        name = ref.removeprefix("#/$defs/")
        if name not in self._compiled:
            self._compiled[name] = self.node(self._definitions[name])
        return self._compiled[name]

    def _own(self, schema: Mapping[str, Any]) -> _Node:
        """Return what a schema says itself, without the schemas that it refers to."""
        walks: list[Walk] = []
        if _CONTAINERS & schema.keys():
            walks.append(self._object(schema))
        if "items" in schema:
            walks.append(_list(self.node(schema["items"])))
        choices = {key: [self.node(one) for one in schema[key]] for key in _CHOICES if key in schema}
        walks += [_choice(nodes, only=key == "oneOf") for key, nodes in choices.items()]
        words = words_of(schema) or " or ".join(node.words for nodes in choices.values() for node in nodes)
        holds = all_hold([VALUE_KEYWORDS[key](schema[key]) for key in schema if key in VALUE_KEYWORDS])
        return _Node(words=words, holds=holds, walks=tuple(walks))

    def _object(self, schema: Mapping[str, Any]) -> Walk:
        known = {key: self.node(one) for key, one in schema.get("properties", {}).items()}
        patterns = [(re.compile(key), self.node(one)) for key, one in schema.get("patternProperties", {}).items()]
        more = schema.get("additionalProperties", True)
        rest = None if more is False else self.node(more)
        names = self.node(schema.get("propertyNames", True))
        required = [(key, known[key].words if key in known else "") for key in schema.get("required", ())]

        def node_of(key: str) -> _Node | None:
            return next((node for pattern, node in patterns if pattern.search(key)), rest)

        def walk(value: Any) -> Iterator[_Found]:
            if type(value) is not dict:
                return
            for key, words in required:
                if key not in value:
                    yield _Found((key,), "missing", words or "a value", _NOTHING)
            for key, item in value.items():
                node = known.get(key) or node_of(key)
                if not names.holds(key):
                    yield _Found((key,), "unknown", f"as a key {names.words}", key)
                if node is None:
                    yield _Found((key,), "unknown", _only(known), item, tuple(known))
                elif node.walks or not node.holds(item):
                    yield from (found.below(key) for found in node.faults(item))

        return walk


def _only(known: Mapping[str, Any]) -> str:
    return f"no other keys than {', '.join(sorted(known))}" if 0 < len(known) <= 12 else "no such key"


def _list(node: _Node) -> Walk:
    def walk(value: Any) -> Iterator[_Found]:
        for number, item in enumerate(value if type(value) is list else ()):
            if node.walks or not node.holds(item):
                yield from (found.below(number) for found in node.faults(item))

    return walk


def _choice(nodes: Sequence[_Node], *, only: bool) -> Walk:
    """Return the walk over a value that must fit one of the nodes: ``only`` one, or any number of them.

    Of a value that fits none, the faults are those under the node that it comes closest to.
    """
    words = " or ".join(node.words for node in nodes)

    def walk(value: Any) -> Iterator[_Found]:
        tried = [list(islice(node.faults(value), MAX_FAULTS)) for node in nodes]
        fitting = sum(not faults for faults in tried)
        if fitting == 1 or (fitting and not only):
            return
        inner = [faults for faults in tried if faults and faults[0].keys]
        if fitting or not inner:
            yield _Found((), "value", f"exactly one of {words}" if fitting else words, value)
        else:
            yield from min(inner, key=len)

    return walk
