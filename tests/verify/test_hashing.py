"""Bytes are hashed by threads that do not wait long for one that computes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from forgepack.artifacts.files import hash_file
from forgepack.canonical import sha256_hex
from forgepack.errors import MissingError
from forgepack.verify.inputs import hashing
from forgepack.verify.inputs.hashing import FileDigest, hash_files


def test_threads_take_short_turns_while_files_are_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter's switch interval is short as long as a file is read, and afterwards what it was."""
    before, during = sys.getswitchinterval(), []

    def watched(path: Path) -> tuple[int, str]:
        during.append(sys.getswitchinterval())
        return hash_file(path)

    monkeypatch.setattr(hashing, "hash_file", watched)
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.write_bytes(b"bytes")
    found = hash_files([there, missing])
    assert {there: FileDigest(bytes=5, sha256=sha256_hex(b"bytes"))} == found.value
    assert [MissingError] == list(map(type, found.faults))
    assert pytest.approx([hashing.TURN_SECONDS] * 2) == during
    assert pytest.approx(before) == sys.getswitchinterval()
