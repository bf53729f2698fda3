"""The sidecar's reader: strict JSON, typed records, schema faults, foreign sidecars told apart."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from forgepack.artifacts.sidecar import Sidecar, read_sidecar
from forgepack.canonical import dump_canonical
from forgepack.errors import CorruptError
from tests.emit.conftest import Emitted


def write(path: Path, raw: Any) -> Sidecar:
    path.write_bytes(dump_canonical(raw))
    return read_sidecar(path)


def test_round_trip(odd: Emitted, tmp_path: Path) -> None:
    """What was written is read, constants as typed records."""
    sidecar = read_sidecar(odd.result.sidecar_file)
    assert dict(sidecar.raw) == odd.result.sidecar
    assert sidecar.constants()["fc.idx"].shape == (48, 144, 1, 1)
    assert sidecar.value("forgepack.target.export") == "mix25_synthetic"
    assert sidecar.value("forgepack.no.such") is None
    assert not sidecar.is_core_ml


def edits(raw: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every key of an object, all depths."""
    out = []
    for key, value in raw.items():
        out.append((*path, key))
        if isinstance(value, dict):
            out.extend(edits(value, (*path, key)))
    return out


# Maps whose keys are data, and objects that the schema leaves to the quantization's report.
OPEN = (
    ("forgepack", "package", "files"),
    ("forgepack", "package", "constants"),
    ("forgepack", "package", "narrowed"),
    ("forgepack", "target", "files"),
    ("forgepack", "target", "head", "tensors"),
    ("forgepack", "quantization", "recipe"),
    ("forgepack", "quantization", "calibration"),
    ("entries",),
)


def test_schema_demands_every_key_and_no_other(odd: Emitted, tmp_path: Path) -> None:
    """Leaving out any key, or adding one to any closed object, is a fault."""
    raw = dict(odd.result.sidecar)
    for path in edits(raw):
        if any(path[: len(prefix)] == prefix and len(path) > len(prefix) for prefix in OPEN):
            continue
        for change in ("remove", "add"):
            spoilt = copy.deepcopy(raw)
            node = spoilt
            for key in path[:-1]:
                node = node[key]
            if change == "remove":
                del node[path[-1]]
            else:
                node["unknown"] = 1
            if change == "add" and path[:-1] in OPEN:
                continue
            assert write(tmp_path / "s.json", spoilt).faults(), (change, path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("W", "2048"),
        ("T", True),
        ("mask_scale", 0),
        ("mask_scale", 1.5),
        ("head_export", "lm_head.safetensors"),
        ("forgepack.schema", "forgepack.sidecar/3"),
        ("forgepack.package.trace_sha256", "ABC"),
        ("forgepack.checkpoint.commit", "main"),
        ("forgepack.target.taps.convention", "hf_hidden_states"),
        ("forgepack.target.taps.layer_ids", [1, 1]),
        (
            "forgepack.package.constants",
            {"fc.idx": {"dtype": "F64", "shape": [], "sha256": "0" * 64, "formula": "x"}},
        ),
        ("forgepack.package.files", {"../x": {"bytes": 1, "sha256": "0" * 64}}),
        ("forgepack.package.files", {"/x": {"bytes": 1, "sha256": "0" * 64}}),
    ],
)
def test_schema_refuses_wrong_values(odd: Emitted, tmp_path: Path, path: str, value: Any) -> None:
    """Values of another type or outside their set are faults that name their place."""
    spoilt = copy.deepcopy(dict(odd.result.sidecar))
    *keys, last = path.split(".")
    node = spoilt
    for key in keys:
        node = node[key]
    node[last] = value
    faults = write(tmp_path / "s.json", spoilt).faults()
    assert faults
    assert faults[0].path.startswith("$." + path.split(".", maxsplit=1)[0])


def test_a_core_ml_sidecar_is_recognised(tmp_path: Path) -> None:
    """The sidecar of a Core ML package of the same stem has other keys."""
    assert write(tmp_path / "s.json", {"quant": "lut4", "policy": "x", "size_gb": 1.5}).is_core_ml


def test_a_sidecar_of_other_scripts_is_not_bound(tmp_path: Path) -> None:
    """Without the object forgepack everything else can still be read."""
    sidecar = write(tmp_path / "s.json", {"W": 64, "T": 8})
    assert sidecar.bound is None
    assert sidecar.value("W") == 64
    with pytest.raises(CorruptError) as caught:
        sidecar.constants()
    assert "forgepack.package.constants" in str(caught.value.where)


def test_a_duplicate_key_is_refused(tmp_path: Path) -> None:
    """JSON that two parsers read differently is no sidecar."""
    (tmp_path / "s.json").write_text('{"W": 1, "W": 2}')
    with pytest.raises(CorruptError) as caught:
        read_sidecar(tmp_path / "s.json")
    assert caught.value.code == "json-duplicate-key"


def test_schemas_are_schemas() -> None:
    """The shipped schemas are valid JSON Schema 2020-12, and their own files say which."""
    from jsonschema import Draft202012Validator

    from forgepack.resources import schema_path

    for name in ("sidecar", "dflash2_source"):
        schema = json.loads(schema_path(name).read_text())
        Draft202012Validator.check_schema(schema)
        assert schema["$id"].startswith(f"urn:forgepack:schema:{name}:")
