"""Real Core ML packages in the place of the Core AI package, under any name: refused by one rule."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from tests.artifacts.coreml_builder import build_packages
from tests.verify.running import explain_all, roots, told, verified
from tests.verify.sabotage import ASSET, SIDECAR, STEM

COREML_SIDECAR = b'{"quant": "lut4", "policy": "rtn", "size_gb": 0.9}'


@pytest.fixture
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a drafter-like package of two functions."""
    return build_packages(tmp_path_factory)["double"]


def refused(pair: Path, *, depth: str = "header", sources: bool = False) -> str:
    """Demand that PKG006 is the one cause, and return what it says."""
    report = verified(pair, depth, sources=sources)
    assert ["PKG006"] == roots(report), explain_all(report)
    assert 1 == report.exit_code
    return told(report, "PKG006")


@pytest.mark.parametrize("sidecar", [True, False], ids=["core ml sidecar", "core ai sidecar"])
@pytest.mark.parametrize("name", [f"{STEM}.aimodel", f"{STEM}.mlpackage", f"{STEM}.MLPackage"])
def test_a_package_in_the_assets_place(pair: Path, package: Path, name: str, sidecar: bool) -> None:
    """Whether it hides under the asset's own name or not, with its own sidecar or the pair's."""
    shutil.rmtree(pair / ASSET)
    shutil.copytree(package, pair / "drafter" / name)
    if sidecar:
        (pair / SIDECAR).write_bytes(COREML_SIDECAR)
    assert "Core ML" in refused(pair)


def test_a_package_beside_the_asset(pair: Path, package: Path) -> None:
    """A second package of the same stem may be loaded by mistake, so it may not be there."""
    shutil.copytree(package, pair / f"drafter/{STEM}.mlpackage")
    assert f"{STEM}.mlpackage" in refused(pair)


@pytest.mark.parametrize("folder", ["old/coreml.mlpackage", "notes", STEM])
def test_a_package_deeper_or_without_a_suffix(pair: Path, package: Path, folder: str) -> None:
    """Marks inside a folder tell what its name does not."""
    place = pair / "drafter" / folder
    shutil.copytree(package, place)
    assert folder.split("/", maxsplit=1)[0] in refused(pair)


def test_a_compiled_model_beside_the_asset(pair: Path) -> None:
    """A compiled model is known by its program's text."""
    folder = pair / "drafter" / "compiled"
    folder.mkdir()
    (folder / "model.mil").write_text("program(1.3)\n")
    (folder / "coremldata.bin").write_bytes(b"x")
    assert "compiled" in refused(pair)


def test_a_package_inside_the_asset(pair: Path, package: Path) -> None:
    """An asset that also holds Core ML's manifest is two packages in one."""
    shutil.copytree(package, pair / ASSET, dirs_exist_ok=True)
    assert "Manifest.json" in refused(pair)


def test_a_bare_model_file(pair: Path, package: Path) -> None:
    """The program alone, without its weights, is refused as well."""
    shutil.copyfile(package / "Data/com.apple.CoreML/model.mlmodel", pair / f"drafter/{STEM}.mlmodel")
    assert f"{STEM}.mlmodel" in refused(pair)


def test_a_package_in_the_targets_build(pair: Path, package: Path) -> None:
    """A Core ML package under the name of one of the target's packages is told as that, not as a missing file."""
    chunk = pair / "target/coreai/chunk_L00-03.aimodel"
    shutil.rmtree(chunk)
    shutil.copytree(package, chunk)
    assert "chunk_L00-03" in refused(pair)


def test_a_quantization_by_rounding_is_none_of_the_release(pair: Path) -> None:
    """A quantized drafter whose metadata says rtn is what Core ML builds are made from."""
    path = pair / "quant/drafter_quant.safetensors"
    file = read_safetensors(path)
    tensors = {name: file.array(name).copy() for name in file.tensors}
    specs = {name: (info.dtype, info.shape) for name, info in file.tensors.items()}
    with SafetensorsWriter(path, specs, {"quant": "lut4", "method": "rtn"}) as out:
        for name, values in tensors.items():
            out.write(name, values)
    report = verified(pair, sources=True)
    assert "PKG006" in roots(report), explain_all(report)
    assert "rtn" in told(report, "PKG006")
