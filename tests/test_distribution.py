"""What is published: a wheel of exactly the package and its data, and an sdist from which the same wheel is built."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest

from forgepack import __version__

ROOT = Path(__file__).parents[1]
INFO = f"forgepack-{__version__}.dist-info"
DATA = {"schemas": "forgepack/data/schemas", "fixtures/mini": "forgepack/data/mini"}
# Files of the checkout that its tests, lint and builds need, one of each place.
NEEDED = (
    *("Makefile", "pyproject.toml", "README.md", "CHANGELOG.md", "SECURITY.md", ".ci/run", "requirements/test.txt"),
    *("benchmarks/run.py", "fuzz/run.py", "docs/how-to/bundle-a-release.md", "tests/test_distribution.py"),
    *("fixtures/make_compat.py", "fixtures/compat/0.1.0/release/release.json", "fixtures/mini/traces/calib.npz"),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Build wheel and sdist of the checkout by the build backend's own hooks."""
    build = pytest.importorskip("hatchling.build", reason="hatchling is not installed; --group test brings it")
    out = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "315532800")
        patch.chdir(ROOT)
        build.build_wheel(str(out))
        build.build_sdist(str(out))
        yield out


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def expected_files() -> set[str]:
    """Return the package's modules and profiles, the mark of its types, the data, and what every wheel has."""
    package = {*(ROOT / "forgepack").rglob("*.py"), *(ROOT / "forgepack/profiles").glob("*.json")}
    package.add(ROOT / "forgepack/py.typed")
    files = {path.relative_to(ROOT).as_posix() for path in package}
    for source, place in DATA.items():
        found = (path for path in (ROOT / source).rglob("*") if path.is_file())
        files |= {f"{place}/{path.relative_to(ROOT / source).as_posix()}" for path in found}
    licences = {"LICENSE", "fixtures/mini/PSF-LICENSE"}
    return (
        files
        | {f"{INFO}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
        | {f"{INFO}/licenses/{name}" for name in licences}
    )


def test_the_wheel_holds_the_package_its_data_and_nothing_else(built: Path) -> None:
    """Modules, profiles, schemas, the miniature and the licences; no test, no cache, no stray file."""
    assert expected_files() == set(content(wheel_in(built)))


def test_the_wheels_data_is_the_checkouts(built: Path) -> None:
    """Schemas and miniature are byte for byte those that the tests ran with."""
    found = content(wheel_in(built))
    for source, place in DATA.items():
        for name in (name for name in found if name.startswith(f"{place}/")):
            assert (ROOT / source / name.removeprefix(f"{place}/")).read_bytes() == found[name], name


def test_the_wheel_says_what_pyproject_says(built: Path) -> None:
    """Name, version, Pythons, licence and the one command; the version is the package's own."""
    found = content(wheel_in(built))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    stated = message_from_bytes(found[f"{INFO}/METADATA"])
    assert __version__ == project["version"] == stated["Version"]
    assert set(project["requires-python"].split(",")) == set(stated["Requires-Python"].split(","))
    assert len(project["dependencies"]) == len(stated.get_all("Requires-Dist", []))
    assert project["license"] == stated["License-Expression"]
    assert b"[console_scripts]\nforgepack = forgepack.cli.main:entry\n" == found[f"{INFO}/entry_points.txt"]


def test_the_sdist_holds_what_its_tests_need_and_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    """From the unpacked sdist, in another folder, comes the wheel of the checkout to the last byte."""
    import hatchling.build

    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / f"forgepack-{__version__}"
    assert [] == [name for name in NEEDED if not (root / name).is_file()]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        hatchling.build.build_wheel(str(tmp_path))
    assert wheel_in(built).read_bytes() == wheel_in(tmp_path).read_bytes()
