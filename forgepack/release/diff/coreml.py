"""Differences of two Core ML packages or compiled models: functions, ports, forms of weights, bytes of weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from forgepack.artifacts.coreml_facts import CoreMlFunction, CoreMlModel, Port
from forgepack.artifacts.coreml_model import WEIGHTS, read_coreml
from forgepack.artifacts.files import hash_file
from forgepack.release.diff.json_documents import json_differences
from forgepack.release.diff.values import Difference

# coremltools writes the day into every package.
_DATE = "com.github.apple.coremltools.conversion_date"


def coreml_differences(left: Path, right: Path, file: str) -> Iterator[Difference]:
    """Yield what differs between two models by content: raw bytes differ between any two saves of one model."""
    sides = read_coreml(left), read_coreml(right)
    yield from json_differences(_content(sides[0]), _content(sides[1]), file)
    digests = [_weights(side) for side in sides]
    if digests[0] != digests[1]:
        name = f"{file}/{WEIGHTS}".lstrip("/")
        yield Difference(kind="bytes", file=name, place="", left=digests[0], right=digests[1])


def _content(model: CoreMlModel) -> dict[str, object]:
    return {
        "model": model.model_type,
        "version": model.version,
        "default": model.default_function,
        "functions": {function.name: _function(function) for function in model.functions},
        "operations": dict(model.operations),
        "weights": {
            f"{w.function}.{w.name}": f"{w.form} of {w.bits} bits, {w.elements} values" for w in model.weights
        },
        "metadata": {key: value for key, value in model.metadata.items() if key != _DATE},
        "damage": [f"{one.code} {one.where}: {one.what}" for one in model.damage],
    }


def _function(function: CoreMlFunction) -> dict[str, object]:
    groups = {"inputs": function.inputs, "outputs": function.outputs, "states": function.states}
    return {name: {port.name: _form(port) for port in ports} for name, ports in groups.items()}


def _form(port: Port) -> str:
    return f"{port.dtype} {list(port.shape)}"


def _weights(model: CoreMlModel) -> str | None:
    folder = model.path / ("Data/com.apple.CoreML" if model.kind == "package" else "")
    path = folder / WEIGHTS
    return hash_file(path)[1] if path.is_file() else None
