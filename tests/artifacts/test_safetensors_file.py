"""Safetensors headers: every fault by its own code, our files readable by the common library."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from forgepack.artifacts.safetensors_file import BITS, DTYPES, inspect_safetensors, read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.errors import CorruptError, ForgepackError, LimitError, MissingError, UnreadableError


def build(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(begin: int, end: int, dtype: str = "F16", shape: tuple[int, ...] | None = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape or ((end - begin) // 2,)), "data_offsets": [begin, end]}


GOOD = {"a": entry(0, 4), "b": entry(4, 8)}
BROKEN: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "truncated"),
    "seven bytes": (b"\x08\0\0\0\0\0\0", "truncated"),
    "cut in the header": (build(GOOD, bytes(8))[:20], "truncated"),
    "last byte cut": (build(GOOD, bytes(7)), "truncated"),
    "one byte more": (build(GOOD, bytes(9)), "trailing-bytes"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64, "lfs-pointer"),
    "HTML": (b"<!DOCTYPE html><html>login</html>", "wrong-magic"),
    "zip": (b"PK\x03\x04" + bytes(60), "wrong-magic"),
    "pickle": (b"\x80\x02" + bytes(60), "wrong-magic"),
    "GGUF": (b"GGUF" + bytes(60), "wrong-magic"),
    "header bomb": (struct.pack("<Q", 1 << 62) + b"{}", "header"),
    "duplicate name": (build(b'{"a":1,"a":2}'), "json-duplicate-key"),
    "not an object": (build(b"[1]"), "header"),
    "gap": (build({"a": entry(0, 4), "b": entry(8, 12)}, bytes(12)), "header-gap"),
    "overlap": (build({"a": entry(0, 8), "b": entry(4, 8)}, bytes(8)), "header-overlap"),
    "offsets against shape": (build({"a": entry(0, 4, shape=(3,))}, bytes(4)), "header-offsets"),
    "unknown dtype": (build({"a": entry(0, 4, dtype="F5")}, bytes(4)), "dtype"),
    "dtype of another type": (build({"a": {**entry(0, 4), "dtype": ["F16"]}}, bytes(4)), "dtype"),
    "negative shape": (build({"a": entry(0, 4, shape=(-2,))}, bytes(4)), "header"),
    "boolean shape": (build({"a": {**entry(0, 4), "shape": [True, 2]}}, bytes(4)), "header"),
    "entry with another key": (build({"a": {**entry(0, 4), "x": 1}}, bytes(4)), "header"),
    "metadata not strings": (build({"__metadata__": {"a": 1}}), "header"),
    "deep nesting": (build(b'{"a":' * 5000 + b"1" + b"}" * 5000), "json-depth"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_fault_has_its_code(tmp_path: Path, name: str) -> None:
    """A damaged header or layout is refused with the code of its kind and the path of the file."""
    data, code = BROKEN[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises((CorruptError, LimitError)) as caught:
        read_safetensors(path)
    assert (code, True) == (caught.value.code, str(path) in str(caught.value))


def test_all_faults_are_listed(tmp_path: Path) -> None:
    """Two bad tensors give two faults, not the first alone."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(build({"a": entry(0, 4, dtype="F5"), "b": entry(4, 8, shape=(9,))}, bytes(8)))
    _, faults = inspect_safetensors(path)
    assert [f.code for f in faults] == ["dtype", "header-offsets"]


def test_too_many_tensors_is_a_limit(tmp_path: Path) -> None:
    """A header of 70,000 tiny tensors is refused by count, in bounded time."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(build({f"t{n}": entry(2 * n, 2 * n + 2) for n in range(70_000)}, bytes(140_000)))
    with pytest.raises(LimitError) as caught:
        read_safetensors(path)
    assert caught.value.code == "tensor-count"


def test_absent_is_missing(tmp_path: Path) -> None:
    """A file that is not there is missing, not corrupt."""
    with pytest.raises(MissingError):
        read_safetensors(tmp_path / "none.safetensors")


CONTROLS: dict[str, bytes] = {
    "zero-element tensor": build({"a": entry(0, 0, shape=(0, 3)), "b": entry(0, 4)}, bytes(4)),
    "metadata": build({"__metadata__": {"format": "pt"}, "a": entry(0, 4)}, bytes(4)),
    "padded with spaces": build(json.dumps({"a": entry(0, 4)}).encode() + b"   ", bytes(4)),
    "unsorted order": build({"b": entry(4, 8), "a": entry(0, 4)}, bytes(8)),
    "no tensors": build(b"{}  "),
    "header length that spells a pickle": build(json.dumps({"a": entry(0, 4)}).encode().ljust(0x0280), bytes(4)),
    "header length that spells a gzip file": build(json.dumps({"a": entry(0, 4)}).encode().ljust(0x8B1F), bytes(4)),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_legal_forms_are_read(tmp_path: Path, name: str) -> None:
    """Forms that the format allows are no faults."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(CONTROLS[name])
    assert [] == inspect_safetensors(path)[1]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_damage_never_escapes(tmp_path_factory: pytest.TempPathFactory, noise: bytes, cut: int) -> None:
    """Any bytes end in a file or in an error of ours."""
    path = tmp_path_factory.mktemp("noise") / "x.safetensors"
    path.write_bytes(build(GOOD, bytes(8))[:cut] + noise)
    try:
        file = read_safetensors(path)
    except ForgepackError:
        return
    assert all(info.end <= file.size for info in file.tensors.values())


SHAPES = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=6).filter(
        lambda n: n != "__metadata__"
    ),
    st.tuples(st.sampled_from(["F16", "F32", "U8", "I8"]), st.lists(st.integers(0, 4), max_size=3).map(tuple)),
    max_size=5,
)


@given(specs=SHAPES)
def test_what_is_written_is_read_back_and_opens_elsewhere(
    tmp_path_factory: pytest.TempPathFactory, specs: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    """The writer's files hold the same arrays for this reader and for the common library."""
    path = tmp_path_factory.mktemp("w") / "x.safetensors"
    rng = np.random.default_rng(0)
    kinds = {"F16": np.float16, "F32": np.float32, "U8": np.uint8, "I8": np.int8}
    arrays = {n: rng.integers(0, 99, shape).astype(kinds[d]) for n, (d, shape) in specs.items()}
    with SafetensorsWriter(path, specs, {"k": "v"}) as writer:
        for name in reversed(list(arrays)):
            writer.write(name, arrays[name])
    ours, theirs = read_safetensors(path), load_file(path)
    assert sorted(arrays) == sorted(ours.tensors) == sorted(theirs)
    for name, array in arrays.items():
        assert np.array_equal(array, ours.array(name))
        assert np.array_equal(array, theirs[name])


def test_files_of_the_common_library_are_read(tmp_path: Path) -> None:
    """A file that the common library wrote is read with the same values."""
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "x": np.arange(6, dtype=np.float16).reshape(2, 3),
        "y": np.arange(3, dtype=np.int8),
    }
    save_file(arrays, tmp_path / "a.safetensors", {"format": "np"})
    file = read_safetensors(tmp_path / "a.safetensors")
    assert file.metadata == {"format": "np"}
    assert all(np.array_equal(array, file.array(name)) for name, array in arrays.items())


def test_an_unwritten_tensor_is_refused(tmp_path: Path) -> None:
    """A file that lacks a declared tensor is never called complete."""
    with (
        pytest.raises(ValueError, match="never written"),
        SafetensorsWriter(tmp_path / "x.safetensors", {"a": ("U8", (2,))}, {}),
    ):
        pass


def test_a_file_cut_after_its_header_was_read(tmp_path: Path) -> None:
    """A file that shrinks or goes between header and values is unreadable, not an internal error."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(build({"a": entry(0, 8192, shape=(4096,))}, bytes(8192)))
    file = read_safetensors(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UnreadableError, match="changed"):
        file.array("a")
    path.unlink()
    with pytest.raises(UnreadableError):
        file.array("a")


SIZES: tuple[tuple[int, ...], ...] = ((4, 8), (3,), (0,), (2, 2), ())


@pytest.mark.parametrize("dtype", sorted(BITS))
def test_every_dtype_of_the_format_is_read(dtype: str, tmp_path: Path) -> None:
    """The format's own library takes and refuses the same shapes of each element type, packed ones included."""
    for shape in SIZES:
        size = math.prod(shape) * BITS[dtype] // 8
        path = tmp_path / "x.safetensors"
        header = {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": [0, size]}}
        path.write_bytes(build(header, bytes(size)))
        try:
            with safetensors.safe_open(path, "np") as handle:
                taken = "x" in handle.keys()  # noqa: SIM118  (a handle is no mapping)
        except safetensors.SafetensorError:
            taken = False
        file, faults = inspect_safetensors(path)
        assert taken is not bool(faults), shape
        if taken and file is not None and dtype in DTYPES:
            assert (shape, DTYPES[dtype]) == (file.array("x").shape, file.array("x").dtype)


def test_no_dtype_of_the_format_is_missing(tmp_path: Path) -> None:
    """The library names its whole list when it meets another; ours is the same."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(build({"x": {"dtype": "NOPE", "shape": [1], "data_offsets": [0, 1]}}, b"0"))
    with pytest.raises(safetensors.SafetensorError) as caught:
        safetensors.safe_open(path, "np")
    assert set(BITS) == set(re.findall(r"`(\w+)`", str(caught.value))) - {"NOPE"}


def test_packed_elements_are_not_handed_out(tmp_path: Path) -> None:
    """A tensor of four-bit floats has bytes, but no array."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(build({"x": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}}, b"ab"))
    file = read_safetensors(path)
    assert b"ab" == file.raw("x").tobytes()
    with pytest.raises(CorruptError, match="nothing here computes"):
        file.array("x")
