"""Folders, names and single files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.artifacts.files import hash_file, open_regular, read_bounded
from forgepack.artifacts.tree import collisions, unsafe_reason, walk
from forgepack.canonical import sha256_hex
from forgepack.errors import CorruptError, LimitError, MissingError

UNSAFE = [
    "",
    ".",
    "..",
    "../../etc/x",
    "/abs",
    "C:\\x",
    "C:x",
    "c:/x",
    "\\\\host\\s",
    "a/../../b",
    "a\\..\\b",
    "a/./b",
    "a//b",
    "a/",
    "a\x00b",
    "a\nb",
    "con.safetensors",
    "x/NUL",
    "com1.txt",
    "trailing.",
    "trailing ",
    "a*b",
    "a?b",
    "a[b]",
    "a:b",
    "a|b",
    'a"b',
]


@pytest.mark.parametrize("path", UNSAFE)
def test_unsafe_paths_are_named(path: str) -> None:
    """POSIX and Windows escapes are refused on every host."""
    assert unsafe_reason(path) is not None


@pytest.mark.parametrize(
    "path", ["a", "a/b.safetensors", ".gitkeep", "-dash", "with space/quote'", "Zürich.txt", "console"]
)
def test_plain_paths_are_safe(path: str) -> None:
    """Ordinary relative names pass, spaces, quotes and leading dashes included."""
    assert unsafe_reason(path) is None


@given(st.text(max_size=20))
def test_a_safe_path_stays_inside(text: str) -> None:
    """Whatever passes stays below its root when it is joined."""
    if unsafe_reason(text) is None:
        assert os.path.normpath(f"/root/x/{text}").startswith("/root/x/")


def test_collisions_by_case_and_unicode() -> None:
    """Names that differ by case or by Unicode form collide; others do not."""
    names = ["LICENSE", "License", "e\u0301.txt", "\u00e9.txt", "other"]
    assert collisions(names) == [("LICENSE", "License"), ("e\u0301.txt", "\u00e9.txt")]


def test_walk_names_kinds_and_sizes(tmp_path: Path) -> None:
    """Files, folders, links, and special files are listed sorted, links not followed."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"123")
    (tmp_path / "l").symlink_to("/etc")
    os.mkfifo(tmp_path / "p")
    found = [(e.path, e.kind, e.size, e.target) for e in walk(tmp_path)]
    assert found == [
        ("d", "folder", 0, ""),
        ("d/f", "file", 3, ""),
        ("l", "link", 0, "/etc"),
        ("p", "special", 0, ""),
    ]


def test_special_files_are_refused_without_blocking(tmp_path: Path) -> None:
    """A FIFO, a socket, a device and a folder are refused at once; a link loop is named."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "sock"))
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    codes = {}
    for path in (tmp_path / "fifo", tmp_path / "sock", tmp_path / "loop", tmp_path / "folder", Path("/dev/null")):
        with pytest.raises(CorruptError) as caught, open_regular(path):
            pass
        codes[path.name] = caught.value.code
    expected = dict.fromkeys(("fifo", "sock", "folder", "null"), "not-regular") | {"loop": "link-loop"}
    assert expected == codes


def test_missing_is_not_unreadable(tmp_path: Path) -> None:
    """An absent file, also below a file, is missing."""
    (tmp_path / "f").write_bytes(b"")
    for path in (tmp_path / "none", tmp_path / "f" / "x"):
        with pytest.raises(MissingError):
            read_bounded(path)


def test_unreadable_is_not_missing(tmp_path: Path) -> None:
    """A file without read permission is unreadable for a user who is not root (exit 4 kind)."""
    path = tmp_path / "secret"
    path.write_bytes(b"x")
    path.chmod(0)
    tmp_path.chmod(0o755)
    for parent in [tmp_path, *tmp_path.parents][:3]:
        parent.chmod(0o755)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from forgepack.artifacts.files import read_bounded\n"
        "from forgepack.errors import UnreadableError\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: read_bounded(Path(sys.argv[1]))\n"
        "except UnreadableError as e: print(e.code, e.exit_code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert ("unreadable 4\n", "") == (done.stdout, done.stderr)


def test_limit_names_both_sizes(tmp_path: Path) -> None:
    """A file over its bound is a limit error that names limit and size."""
    path = tmp_path / "big"
    path.write_bytes(bytes(11))
    with pytest.raises(LimitError) as caught:
        read_bounded(path, 10)
    assert ("at most 10 bytes", "11 bytes") == (caught.value.expected, caught.value.found)


@given(st.binary(max_size=2000))
def test_hash_is_sha256(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """The streaming digest equals the digest of the bytes."""
    path = tmp_path_factory.mktemp("h") / "f"
    path.write_bytes(data)
    assert (len(data), sha256_hex(data)) == hash_file(path)
