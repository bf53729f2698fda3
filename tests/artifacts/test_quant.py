"""QUANT folders: a closed set of tensors under a report; every difference is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.quant import QUANT_FILE, read_quant
from forgepack.artifacts.quant_report import REPORT_FILE
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.canonical import dump_canonical
from forgepack.errors import CorruptError, ForgepackError, IdentityError, MissingError, NumericsError
from forgepack.geometry import quant_tensors
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import quantize
from forgepack.resources import schema_path
from tests.synthetic import GEOMETRY, make_profile
from tests.synthetic_files import open_sources, write_pair

LUT, INT8 = "layers.1.mlp.up_proj.weight", "layers.0.mlp_conv.kernel_projection.weight"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_pair(tmp_path_factory.mktemp("pair"))
    profile = make_profile()
    return quantize(open_sources(root, profile), root / "q", profile=profile, options=Options()).root


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "q")


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None], *, bind: bool = True) -> None:
    """Write the tensors anew after ``change``; ``bind`` makes the report agree with the new bytes."""
    path = folder / QUANT_FILE
    file = read_safetensors(path)
    tensors: dict[str, Any] = {name: np.array(file.array(name)) for name in file.tensors}
    change(tensors)
    names = {"float16": "F16", "uint8": "U8", "int8": "I8", "float32": "F32"}
    specs = {name: (names[str(array.dtype)], array.shape) for name, array in tensors.items()}
    with SafetensorsWriter(folder / "new", specs, {}) as writer:
        for name, array in tensors.items():
            writer.write(name, array)
    (folder / "new").rename(path)
    if bind:
        size, digest = hash_file(path)
        edit(folder, lambda raw: raw["output"].update(bytes=size, sha256=digest))


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    raw = json.loads((folder / REPORT_FILE).read_text())
    change(raw)
    (folder / REPORT_FILE).write_bytes(dump_canonical(raw))


def put(name: str, place: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name][place] = value

    return change


def test_dequantize_multiplies_in_float32(folder: Path) -> None:
    """A LUT4 weight is lut[idx]·scale, an INT8 weight int8·scale, float16 factors multiplied in float32."""
    quant = read_quant(folder, GEOMETRY)
    file = quant.tensors
    lut = file.array(f"{LUT}.lut").astype(np.float32)[:, 0]
    scale = file.array(f"{LUT}.scale").astype(np.float32)[:, None]
    assert np.array_equal(lut[file.array(f"{LUT}.idx")] * scale, quant.dequantize(LUT))
    codes = file.array(f"{INT8}.int8").astype(np.float32)
    assert np.array_equal(codes * file.array(f"{INT8}.scale").astype(np.float32)[:, None], quant.dequantize(INT8))


def test_the_tensors_are_forges(folder: Path) -> None:
    """Names, dtypes and shapes are exactly the contract's."""
    file = read_safetensors(folder / QUANT_FILE)
    assert quant_tensors(GEOMETRY) == {name: (t.dtype, t.shape) for name, t in file.tensors.items()}


def test_the_report_fits_its_schema(folder: Path) -> None:
    """report.json is what schemas/quant_report.schema.json describes, and nothing more."""
    import jsonschema

    schema = json.loads(schema_path("quant_report").read_text())
    raw = json.loads((folder / REPORT_FILE).read_text())
    jsonschema.Draft202012Validator(schema).validate(raw)
    raw["extra"] = 1
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(raw))


def test_unbound_digest_is_refused(folder: Path) -> None:
    """Weights that the report does not describe are refused, however good they look."""
    rewrite(folder, put(f"{LUT}.idx", (0, 0), 3), bind=False)
    with pytest.raises(IdentityError) as caught:
        read_quant(folder, GEOMETRY)
    assert caught.value.code == "quant-digest"
    assert read_quant(folder, GEOMETRY, content=False).geometry == GEOMETRY


VALUES: dict[str, tuple[str, Any, Any]] = {
    "an index of 16": (f"{LUT}.idx", (1, 2), 16),
    "an index of 255": (f"{LUT}.idx", (1, 2), 255),
    "a code that is not a number": (f"{LUT}.lut", (3, 0), np.nan),
    "an endless scale": (f"{LUT}.scale", 5, np.inf),
    "an endless INT8 scale": (f"{INT8}.scale", 0, -np.inf),
}


@pytest.mark.parametrize("kind", VALUES)
def test_bad_values_are_named(folder: Path, kind: str) -> None:
    """Indices over 15 and values that are not finite name their tensor."""
    name, place, value = VALUES[kind]
    rewrite(folder, put(name, place, value))
    with pytest.raises(NumericsError, match=name.replace(".", r"\.")):
        read_quant(folder, GEOMETRY)


def drop(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda tensors: tensors.pop(name)


def add(name: str, array: np.ndarray) -> Callable[[dict[str, Any]], None]:
    return lambda tensors: tensors.update({name: array})


SETS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a tensor is missing": (drop(f"{LUT}.scale"), "tensor-missing"),
    "a tensor too many": (add("norm.weight", np.zeros(3, np.float16)), "tensor-unexpected"),
    "another shape": (add(f"{LUT}.lut", np.zeros(16, np.float16)), "tensor-shape"),
    "another dtype": (add(f"{LUT}.lut", np.zeros((16, 1), np.float32)), "tensor-dtype"),
    "packed indices": (add(f"{LUT}.idx", np.zeros((40, 16), np.uint8)), "tensor-shape"),
}


@pytest.mark.parametrize("kind", SETS)
def test_the_set_is_closed(folder: Path, kind: str) -> None:
    """Missing, additional, reshaped and retyped tensors are refused by their codes."""
    change, code = SETS[kind]
    rewrite(folder, change)
    with pytest.raises(ForgepackError) as caught:
        read_quant(folder, GEOMETRY)
    assert caught.value.code == code


@pytest.mark.parametrize("name", [QUANT_FILE, REPORT_FILE])
def test_both_files_are_needed(folder: Path, name: str) -> None:
    """A folder without one of its files is no QUANT folder."""
    (folder / name).unlink()
    with pytest.raises(MissingError, match="forgepack quantize"):
        read_quant(folder, GEOMETRY)


def test_a_third_file_is_refused(folder: Path) -> None:
    """Files that nothing binds have no place here."""
    (folder / "notes.txt").write_text("x")
    with pytest.raises(CorruptError) as caught:
        read_quant(folder, GEOMETRY)
    assert caught.value.code == "quant-unexpected"


REPORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another schema": lambda r: r.update(schema="forgepack.quant_report/3"),
    "an unknown key": lambda r: r.update(more=1),
    "a missing key": lambda r: r.pop("numerics"),
    "another method": lambda r: r.update(method="awq"),
    "a method of another type": lambda r: r.update(method=["gptq"]),
    "no commit": lambda r: r["inputs"]["checkpoint"].pop("commit"),
    "a digest of another length": lambda r: r["output"].update(sha256="ab"),
    "a mask scale of zero": lambda r: r["recipe"]["mask_scale"].update(deployment=0),
    "a mask scale as text": lambda r: r["recipe"]["mask_scale"].update(deployment="0.7"),
    "a flag for a size": lambda r: r["output"].update(bytes=True),
    "inputs as a list": lambda r: r.update(inputs=[]),
    "bound as a number": lambda r: r["inputs"]["calibration"].update(bound=1),
    "matrices as a list": lambda r: r.update(matrices=[]),
}


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_of_another_form_is_refused(folder: Path, kind: str) -> None:
    """The report is judged before anything is taken from it."""
    edit(folder, REPORTS[kind])
    with pytest.raises(CorruptError) as caught:
        read_quant(folder, GEOMETRY)
    assert caught.value.code == "quant-report"
