"""What a Core ML model is, as plain values, whatever it was read from: a package, a compiled model, a bare file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Form = Literal["lut", "affine", "sparse", "dense"]
Kind = Literal["package", "compiled", "file"]
LOGITS = "logits"
_METHOD = re.compile(r"(?<![a-z])(rtn|gptq)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A named input, output or state: element type as safetensors names it, and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMlFunction:
    """One entry point."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeight:
    """One constant: form, bits of a stored value, number of values, and where weight.bin holds it.

    ``offset`` is None for values that stand in the program itself.
    """

    function: str
    name: str
    form: Form
    bits: int
    elements: int
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One thing that is wrong: a short code, where, and what."""

    code: str
    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMlModel:
    """A Core ML model as far as it could be read; ``unread`` says why nothing of its program was.

    ``metadata`` is what its maker defined, ``operations`` counts kinds of operations over all functions.
    """

    path: Path
    kind: Kind
    model_type: str
    version: int | None
    functions: tuple[CoreMlFunction, ...]
    default_function: str
    weights: tuple[StoredWeight, ...]
    operations: Mapping[str, int]
    metadata: Mapping[str, str]
    weight_bytes: int
    damage: tuple[Damage, ...]
    unread: str | None

    @property
    def head(self) -> bool | None:
        """Whether some function returns logits; None when no outputs were read."""
        outputs = [port.name for function in self.functions for port in function.outputs]
        return LOGITS in outputs if outputs else None

    def lut_bits(self) -> dict[int, int]:
        """Return how many palettized matrices have an index of so many bits; one shared by functions counts once."""
        return self._count("lut")

    def affine_bits(self) -> dict[int, int]:
        """Return how many matrices are stored as integers of so many bits with a scale."""
        return self._count("affine")

    def _count(self, form: Form) -> dict[int, int]:
        found: dict[int, set[object]] = {}
        for weight in self.weights:
            if weight.form == form:
                place = (weight.function, weight.name) if weight.offset is None else weight.offset
                found.setdefault(weight.bits, set()).add(place)
        return {bits: len(places) for bits, places in sorted(found.items())}

    def shared_weights(self) -> int:
        """Return how many stored constants more than one function uses."""
        users: dict[int, set[str]] = {}
        for weight in self.weights:
            if weight.offset is not None:
                users.setdefault(weight.offset, set()).add(weight.function)
        return sum(len(functions) > 1 for functions in users.values())


def told_method(sources: Mapping[str, Mapping[str, object]]) -> tuple[str, str] | None:
    """Return (rtn or gptq, where it is stated) from the first text that names one of them; None when none does.

    ``sources`` maps the name of a file to its flat keys and values.
    """
    for where, key, text in _texts(sources):
        match = _METHOD.search(text)
        if match is not None:
            return match[1].lower(), f"{where}: {key}"
    return None


def _texts(sources: Mapping[str, Mapping[str, object]]) -> Iterator[tuple[str, str, str]]:
    for where, values in sources.items():
        for key in sorted(values):
            if isinstance(values[key], str):
                yield where, key, str(values[key])
