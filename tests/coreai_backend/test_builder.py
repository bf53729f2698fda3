"""Building: wrong buffers and results are refused, and the bytes depend on nothing but the inputs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import forgepack
from forgepack.artifacts.aimodel import hash_program, read_asset_files
from forgepack.coreai_backend.asset_writer import AssetMetadata, write_asset
from forgepack.coreai_backend.bindings import Tensor
from forgepack.coreai_backend.builder import Body, Function, build_program
from forgepack.coreai_backend.constants import NamedConstant
from forgepack.coreai_backend.ops import Ops
from forgepack.coreai_backend.target_assets import author_head_package
from forgepack.errors import InternalError, OutputError
from tests.coreai_backend.heads import METADATA, make_head

ROOT = Path(forgepack.__file__).parent.parent
CONSTANTS = {"two": NamedConstant(name="two", dtype="F16", shape=(4,), data=np.full(4, 2, np.float16))}


def function(body: Body, shape: tuple[int, ...] = (4,)) -> Function:
    return Function(name="f", inputs=(("x", (4,)),), outputs=(("y", shape),), body=body)


def double(ops: Ops, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"y": ops.mul(inputs["x"], ops.named("two"))}


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("F16", np.zeros(3, np.float16)),
        ("F16", np.zeros(5, np.float16)),
        ("U4", np.zeros(3, np.uint8)),
        ("F16", np.zeros(8, np.float16)[::2]),
    ],
)
def test_a_buffer_of_another_size_is_refused(dtype: str, data: np.ndarray[tuple[int], np.dtype[np.generic]]) -> None:
    """Core AI does not check a buffer's length, so a short, long or strided one is refused before."""
    with pytest.raises(InternalError, match="buffer"):
        NamedConstant(name="c", dtype=dtype, shape=(4,), data=data)


def test_a_result_of_another_shape_is_refused() -> None:
    """A body whose result does not have the declared type is named, with both types."""
    with pytest.raises(InternalError) as caught:
        build_program([function(double, shape=(2, 2))], CONSTANTS.__getitem__)
    assert caught.value.where == "f.y"
    assert caught.value.found == "tensor<4xf16>"


def test_missing_results_are_refused() -> None:
    """A body must return exactly the declared outputs."""
    with pytest.raises(InternalError, match="outputs"):
        build_program([function(lambda ops, inputs: {"z": inputs["x"]})], CONSTANTS.__getitem__)


def test_a_constant_named_by_an_address_is_refused() -> None:
    """Arithmetic between constants is folded into a buffer that is named after its address: never write that."""
    size = 4096
    data = np.arange(size, dtype=np.float16)
    constant = NamedConstant(name="many", dtype="F16", shape=(size,), data=data)

    def folded(ops: Ops, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"y": ops.mul(inputs["x"], ops.mul(ops.named("many"), ops.scalar(0.5)))}

    wide = Function(name="f", inputs=(("x", (size,)),), outputs=(("y", (size,)),), body=folded)
    with pytest.raises(InternalError, match="changes on every run"):
        build_program([wide], {"many": constant}.__getitem__)


def test_inline_constants_of_any_length_are_no_foreign_buffers() -> None:
    """Shapes, axes and scalars are stored inline, however many there are of them: none is taken for a named buffer.

    Printed with a limit such a constant reads as ``dense_resource<__elided__>``, which is nobody's name.
    """
    shape, half = (2, 3, 4, 5, 6, 7), (7, 6, 5, 4, 3, 1)

    def body(ops: Ops, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"y": ops.slice(ops.transpose(inputs["x"], [5, 4, 3, 2, 1, 0]), [0] * 6, half)}

    wide = Function(name="f", inputs=(("x", shape),), outputs=(("y", half),), body=body)
    named: dict[str, NamedConstant] = {}
    constants = build_program([wide], named.__getitem__).trace.constants
    assert {None} == {constant.name for constant in constants}
    assert {(6,)} == {constant.shape for constant in constants}


def test_a_shared_constant_is_asked_for_once() -> None:
    """Two entry points over one weight store it once."""
    asked: list[str] = []

    def lookup(name: str) -> NamedConstant:
        asked.append(name)
        return CONSTANTS[name]

    other = Function(name="g", inputs=(("x", (4,)),), outputs=(("y", (4,)),), body=double)
    program = build_program([function(double), other], lookup)
    assert [c.name for c in program.trace.constants if c.name is not None] == ["two"]
    assert asked == ["two"]


def test_an_existing_folder_is_never_written_into(tmp_path: Path) -> None:
    """The writer makes its own folder; what is there already is the publisher's business."""
    program = build_program([function(double)], CONSTANTS.__getitem__)
    (tmp_path / "there.aimodel").mkdir()
    with pytest.raises(OutputError):
        write_asset(program, tmp_path / "there.aimodel", METADATA)


def test_the_date_is_fixed_unless_given(tmp_path: Path) -> None:
    """Nothing reads the clock: a date comes from the caller or is the fixed one, and moves only metadata.json."""
    program = build_program([function(double)], CONSTANTS.__getitem__)
    dated = AssetMetadata(author="a", licence="l", description="d", created=1_700_000_000)
    plain = AssetMetadata(author="a", licence="l", description="d")
    for name, metadata in (("plain", plain), ("dated", dated)):
        write_asset(program, tmp_path / f"{name}.aimodel", metadata)
    one, other = (read_asset_files(tmp_path / f"{name}.aimodel") for name in ("plain", "dated"))
    assert one.metadata["creationDate"] == "19800101T000000Z"
    assert other.metadata["creationDate"] == "20231114T221320Z"
    assert one.content_sha256 == other.content_sha256
    assert one.metadata_sha256 != other.metadata_sha256
    assert hash_program(one) == hash_program(other)


BUILD = """
import sys
from pathlib import Path
from tests.coreai_backend.heads import METADATA, make_head
from forgepack.coreai_backend.target_assets import author_head_package
author_head_package(Path(sys.argv[1]), make_head(), parts=4, metadata=METADATA)
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_bytes_are_the_same_in_any_process_directory_and_source_layout(tmp_path: Path) -> None:
    """A build in another process, another directory, from sources whose lines have moved gives the same bytes."""
    here = tmp_path / "here" / "head.aimodel"
    here.parent.mkdir()
    author_head_package(here, make_head(), parts=4, metadata=METADATA)
    moved = tmp_path / "moved sources"
    for name in ("forgepack", "tests"):
        shutil.copytree(ROOT / name, moved / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (moved / "forgepack" / "coreai_backend").glob("*.py"):
        path.write_text(path.read_text().replace("\nfrom __future__", "\n# moved\n\n\nfrom __future__"))
    there = tmp_path / "there, elsewhere" / "other name.aimodel"
    there.parent.mkdir()
    subprocess.run([sys.executable, "-X", "pycache_prefix=", "-c", BUILD, there], cwd=moved, check=True)
    assert contents(here) == contents(there)
