"""Describe Core ML packages, compiled models and bare models."""

from __future__ import annotations

from collections.abc import Mapping

from forgepack.artifacts.coreml_facts import CoreMlFunction, CoreMlModel, Port, told_method
from forgepack.artifacts.coreml_model import MODEL, WEIGHTS, read_coreml
from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.mlpackage import coreml_sidecar
from forgepack.canonical import parse_object
from forgepack.errors import ForgepackError
from forgepack.release.inspect.notes import Fault, Notes

_TITLES = {
    "package": "a Core ML package",
    "compiled": "a compiled Core ML model",
    "file": "a Core ML model without its weights' folder",
}


def describe_coreml(notes: Notes) -> None:
    """Note functions, states, ports, how weights are stored, by which method where the file says so, and the head."""
    found = read_coreml(notes.path)
    notes.title = f"{_TITLES[found.kind]}: never a substitute for a Core AI package"
    notes.faults += [Fault(code=d.code, where=d.where, what=d.what) for d in found.damage]
    _identity(notes, found)
    notes.facts["model"] = (
        found.model_type if found.version is None else f"{found.model_type}, version {found.version}"
    )
    if found.unread is not None:
        notes.facts["not read"] = found.unread
    for function in found.functions:
        _function(notes, function, default=function.name == found.default_function)
    if found.head is not None:
        notes.facts["head"] = (
            "yes: an output is called logits" if found.head else "no: headless, no output called logits"
        )
    _weights(notes, found)
    sources: dict[str, Mapping[str, object]] = {"its metadata": found.metadata}
    sources |= _sidecar(notes)
    told = told_method({**sources, "its name": {"name": notes.path.name}})
    notes.facts["method"] = "not stated" if told is None else f"{told[0]}, by {told[1]}"
    if found.metadata:
        notes.facts["metadata"] = ", ".join(f"{key}: {value}" for key, value in found.metadata.items())[:400]


def _identity(notes: Notes, found: CoreMlModel) -> None:
    if found.kind == "file":
        notes.hash(notes.path)
        return
    weights = notes.path / ("Data/com.apple.CoreML" if found.kind == "package" else "") / WEIGHTS
    program = notes.path / (MODEL if found.kind == "package" else "model.mil")
    for name, path in (("program", program), ("weights", weights)):
        if path.is_file():
            notes.hash(path, name)


def _function(notes: Notes, function: CoreMlFunction, *, default: bool) -> None:
    parts = [f"{word} {_ports(ports)}" for word, ports in _groups(function) if ports]
    notes.facts[f"function {function.name}{' (default)' if default else ''}"] = "; ".join(parts)


def _groups(function: CoreMlFunction) -> tuple[tuple[str, tuple[Port, ...]], ...]:
    return ("inputs", function.inputs), ("states", function.states), ("outputs", function.outputs)


def _ports(ports: tuple[Port, ...]) -> str:
    told = [f"{port.name} {port.dtype}{list(port.shape) if port.shape else ''}" for port in ports[:8]]
    return ", ".join([*told, *([f"and {len(ports) - 8} more"] if len(ports) > 8 else [])])


def _weights(notes: Notes, found: CoreMlModel) -> None:
    notes.facts["weights"] = f"{found.weight_bytes} bytes"
    for name, counts in (("palettized", found.lut_bits()), ("integers with a scale", found.affine_bits())):
        if counts:
            notes.facts[name] = ", ".join(f"{count} of {bits} bits" for bits, count in counts.items())
    if len(found.functions) > 1 and found.weights:
        notes.facts["shared by functions"] = f"{found.shared_weights()} constants"


def _sidecar(notes: Notes) -> dict[str, Mapping[str, object]]:
    """Return what a sidecar of the same stem says, if it is a Core ML one."""
    path = notes.path.with_suffix(".json")
    if notes.path.suffix == ".json" or not path.is_file():
        return {}
    try:
        raw = parse_object(read_bounded(path), where=str(path))
    except ForgepackError:
        return {}
    if coreml_sidecar(raw) is None:
        return {}
    notes.facts["sidecar"] = ", ".join(f"{key}: {raw[key]}" for key in sorted(raw))[:200]
    return {path.name: raw}
