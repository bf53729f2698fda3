"""Archives of np.savez: damage of every kind ends in this tool's errors, never in wrong arrays."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.artifacts.npz import read_npz
from forgepack.artifacts.traces import read_traces
from forgepack.errors import CorruptError, ForgepackError, LimitError
from tests.artifacts.test_traces import BASE, LENGTH
from tests.synthetic import GEOMETRY, trace_arrays


def test_objects_are_refused(tmp_path: Path) -> None:
    """A pickled array is never loaded."""
    np.savez(tmp_path / "t.npz", allow_pickle=True, **trace_arrays([BASE]) | {"m_0": np.array([{}], object)})
    with pytest.raises(CorruptError) as caught:
        read_traces(tmp_path / "t.npz", GEOMETRY)
    assert caught.value.code == "npz"


def archive_bytes() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **trace_arrays([BASE]))
    return stream.getvalue()


def add_member(name: str, data: bytes) -> bytes:
    stream = io.BytesIO(archive_bytes())
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr(name, data)
    return stream.getvalue()


def flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :]


def directory_count(data: bytes, count: int) -> bytes:
    return data[:-14] + struct.pack("<2H", count, count) + data[-10:]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut by one byte": lambda b: b[:-1],
    "cut in half": lambda b: b[: len(b) // 2],
    "padded": lambda b: b + b"\0",
    "a Git LFS pointer": lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\n",
    "an HTML page": lambda _: b"<!DOCTYPE html><html></html>",
    "a pickle": lambda _: b"\x80\x04\x95" + b"\0" * 60,
    "zeros": lambda b: bytes(len(b)),
    "one bit of the tokens": lambda b: flip(b, b.index(b"tokens_0.npy") + 160),
    "a member that is no array": lambda _: add_member("readme.txt", b"hello"),
    "an array that is none": lambda _: add_member("x_0.npy", b"hello"),
    "a header that is code": lambda _: add_member("x_0.npy", b"\x93NUMPY\x01\x00\x10\x00" + b"__import__('os')"),
    "a short array": lambda _: add_member("tokens_1.npy", npy(BASE.tokens)[:-3]),
    "a long array": lambda _: add_member("tokens_1.npy", npy(BASE.tokens) + b"\0"),
    "more members than there are": lambda b: directory_count(b, 5),
}


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_archives_are_refused(tmp_path: Path, kind: str) -> None:
    """Every kind of damage ends in an error of this tool, at the latest when the array is read."""
    path = tmp_path / "t.npz"
    path.write_bytes(DAMAGE[kind](archive_bytes()))
    with pytest.raises((CorruptError, LimitError)):
        read_traces(path, GEOMETRY).features(0)


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    """Two members of one name could be read as either."""
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = add_member("m_0.npy", npy(BASE.accepted))
    (tmp_path / "t.npz").write_bytes(data)
    with pytest.raises(CorruptError):
        read_traces(tmp_path / "t.npz", GEOMETRY)


def test_a_directory_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    """The declared number of members is judged before the directory is read."""
    path = tmp_path / "t.npz"
    path.write_bytes(directory_count(archive_bytes(), 60_000))
    with pytest.raises(LimitError) as caught:
        read_npz(path)
    assert caught.value.code == "npz-limit"


def test_a_bomb_is_refused_by_its_declared_size(tmp_path: Path) -> None:
    """A member that would inflate to more than its header needs is refused without inflating it."""
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tokens_0.npy", npy(np.zeros(4, np.int32)) + bytes(64 << 20))
    (tmp_path / "t.npz").write_bytes(bomb.getvalue())
    with pytest.raises(CorruptError, match="does not fit its header"):
        read_npz(tmp_path / "t.npz")


@given(st.data())
def test_any_damaged_byte_is_an_error_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Flipping any bits never ends in anything but this tool's errors or in equal arrays."""
    good = archive_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    bad = good[:place] + bytes([good[place] ^ data.draw(st.integers(1, 255))]) + good[place + 1 :]
    path = tmp_path_factory.mktemp("t") / "t.npz"
    path.write_bytes(bad)
    try:
        traces = read_traces(path, GEOMETRY)
        features = traces.features(0)
    except ForgepackError:
        return
    assert np.array_equal(BASE.features.reshape(LENGTH - 1, -1), features)
    assert np.array_equal(BASE.tokens, traces.sequences[0].tokens)
    assert [5, 7, 11, 12] == traces.sequences[0].positions.tolist()
