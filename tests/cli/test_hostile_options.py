"""Files that say what is accepted, made to exhaust, to block or to mislead: a documented exit code, never a pass."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepack.cli.main import run
from tests.cli.test_verify import arguments

OPTIONS = ("--attestation", "--evidence", "--waivers", "--baseline", "--deny")
# Settings that can't be used are a matter of usage; attestation and evidence are content, and refuse.
REFUSED = {"--attestation": 1, "--evidence": 1, "--waivers": 2, "--baseline": 2, "--deny": 2}
CONTENT: dict[str, bytes] = {
    "empty": b"",
    "no text": bytes(range(256)),
    "half of JSON": b'{"schema": ',
    "a list": b"[]",
    "a number": b"1",
    "a key twice": b'{"waiver": [], "waiver": []}',
    "nested": b"[" * 200_000,
    "nested tables": b"a = " + b"[" * 5_000,
    "a byte-order mark": b"\xef\xbb\xbf{}",
    "NaN": b'{"sha256": NaN}',
    "a pickle": b"\x80\x04\x95",
    "a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
}


def judged(root: Path, option: str, file: Path) -> int:
    return run(arguments(root, "header", option, str(file)))


@pytest.mark.parametrize("suffix", [".json", ".toml"])
@pytest.mark.parametrize("name", CONTENT)
@pytest.mark.parametrize("option", OPTIONS)
def test_what_is_no_such_file_never_passes(base: Path, tmp_path: Path, option: str, name: str, suffix: str) -> None:
    """Whatever bytes it holds, the run ends with its code."""
    file = tmp_path / f"file{suffix}"
    file.write_bytes(CONTENT[name])
    assert REFUSED[option] == judged(base, option, file)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 30)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


PLACES: dict[str, tuple[Callable[[Path], object], set[int]]] = {
    "a pipe": (pipe, {1, 2, 4}),
    "a folder": (Path.mkdir, {1, 2, 4}),
    "a gigabyte": (huge, {2, 4}),
    "a link to itself": (loop, {2, 4}),
    "nothing": (lambda path: None, {2}),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("option", OPTIONS)
def test_what_is_no_file_never_blocks(base: Path, tmp_path: Path, option: str, name: str) -> None:
    """Pipes are never opened, sizes are bounded, loops are no files."""
    make, codes = PLACES[name]
    file = tmp_path / "file.json"
    make(file)
    assert judged(base, option, file) in codes
