"""checkpoint.lock.json: round trip, refusal of every malformed lock, and what readers demand of a folder."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from forgepack.artifacts.lock import (
    LOCK_NAME,
    CheckpointLock,
    LockedFile,
    make_lock,
    parse_lock,
    read_lock,
    write_lock,
)
from forgepack.artifacts.locked import byte_differences, require_locked, size_differences
from forgepack.artifacts.tree import unsafe_reason
from forgepack.canonical import digest_json, dump_canonical, sha256_hex
from forgepack.errors import CorruptError, ForgepackError, IdentityError, LimitError, MissingError, OutputError
from forgepack.profile import HubPin, load_profile
from forgepack.resources import schema_path

REPO, COMMIT = "forge/drafter", "4cfb6ad03268fed0f60ca96c1a659c0b1c77e50b"
FILES = {"LICENSE": b"Apache", "config.json": b"{}", "model.safetensors": bytes(range(256))}
PROFILE = replace(
    load_profile(), hub=HubPin(repo=REPO, commit=COMMIT, files=tuple(FILES), optional_files=()), known_bad={}
)
GOOD: dict[str, Any] = {
    "schema": "forgepack.checkpoint-lock/1",
    "repo": REPO,
    "commit": COMMIT,
    "adopted": False,
    "files": [{"path": "model.safetensors", "bytes": 256, "sha256": "a" * 64}],
}
HEX = "0123456789abcdef"
PATHS = st.lists(st.from_regex(r"[a-z0-9_-]{1,8}(\.[a-z]{1,4})?", fullmatch=True), min_size=1, max_size=3).map(
    "/".join
)


def lock_of(files: dict[str, bytes] = FILES) -> CheckpointLock:
    """Return the lock of some files."""
    entries = [LockedFile(path=p, bytes=len(d), sha256=sha256_hex(d)) for p, d in files.items()]
    return make_lock(repo=REPO, commit=COMMIT, adopted=False, files=entries)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a locked folder with FILES."""
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    write_lock(tmp_path, lock_of())
    return tmp_path


@cache
def validator() -> Draft202012Validator:
    """Return a validator for the shipped schema."""
    schema = json.loads(schema_path("checkpoint.lock").read_bytes())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@given(
    files=st.dictionaries(
        PATHS, st.tuples(st.integers(0, 1 << 50), st.text(HEX, min_size=64, max_size=64)), min_size=1
    ),
    adopted=st.booleans(),
    commit=st.text(HEX, min_size=40, max_size=40),
)
def test_any_lock_survives_writing_and_reading(files: dict[str, tuple[int, str]], adopted: bool, commit: str) -> None:
    """Parse is the inverse of as_json, files come sorted, the schema agrees, the digest is of the content."""
    if any(unsafe_reason(path) for path in files):
        return
    entries = [LockedFile(path=p, bytes=n, sha256=h) for p, (n, h) in files.items()]
    lock = make_lock(repo=REPO, commit=commit, adopted=adopted, files=entries)
    raw = json.loads(dump_canonical(lock.as_json()))
    assert lock == parse_lock(raw, where="here")
    assert sorted(files) == [f.path for f in lock.files]
    assert lock.digest == digest_json(raw)
    assert [] == list(validator().iter_errors(raw))
    shuffled = {**raw, "files": raw["files"][::-1]}
    assert lock == parse_lock(shuffled, where="here")


def test_a_lock_is_written_canonically_and_read_back(root: Path) -> None:
    """Sorted keys, two spaces, a final newline; no temporary file stays."""
    assert dump_canonical(lock_of().as_json()) == (root / LOCK_NAME).read_bytes()
    assert lock_of() == read_lock(root)
    assert sorted([*FILES, LOCK_NAME]) == sorted(p.name for p in root.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "forgepack.checkpoint-lock/2"},
        {"schema": None},
        {"repo": "forge"},
        {"repo": "../forge/x"},
        {"repo": 1},
        {"repo": REPO + "\n"},
        {"commit": "main"},
        {"commit": COMMIT.upper()},
        {"commit": COMMIT[:39]},
        {"commit": COMMIT + "\n"},
        {"adopted": 0},
        {"adopted": "false"},
        {"files": []},
        {"files": {}},
        {"files": [1]},
        {"files": None},
        {"more": 1},
    ],
)
def test_a_lock_with_a_wrong_key_is_refused_by_reader_and_schema(change: dict[str, Any]) -> None:
    """Both say no to the same documents."""
    raw = {**GOOD, **change}
    with pytest.raises(CorruptError):
        parse_lock(raw, where="here")
    assert [] != list(validator().iter_errors(raw))


@pytest.mark.parametrize("key", sorted(GOOD))
def test_a_lock_without_a_key_is_refused_by_reader_and_schema(key: str) -> None:
    """Every key is required."""
    raw = {k: v for k, v in GOOD.items() if k != key}
    with pytest.raises(CorruptError):
        parse_lock(raw, where="here")
    assert [] != list(validator().iter_errors(raw))


@pytest.mark.parametrize(
    "change",
    [
        {"path": "../up"},
        {"path": "/abs"},
        {"path": "a/../b"},
        {"path": "a\\b"},
        {"path": "C:x"},
        {"path": ""},
        {"path": "."},
        {"path": "a\x00b"},
        {"path": 1},
        {"bytes": -1},
        {"bytes": "1"},
        {"bytes": True},
        {"bytes": None},
        {"sha256": "A" * 64},
        {"sha256": "a" * 63},
        {"sha256": "a" * 64 + "\n"},
        {"sha256": None},
        {"more": 1},
    ],
)
def test_a_file_entry_with_a_wrong_value_is_refused_by_reader_and_schema(change: dict[str, Any]) -> None:
    """Hostile paths, sizes that are no natural numbers, digests that are none."""
    raw = {**GOOD, "files": [{**GOOD["files"][0], **change}]}
    with pytest.raises(CorruptError) as caught:
        parse_lock(raw, where="here")
    assert "files[0]" in str(caught.value.where)
    assert [] != list(validator().iter_errors(raw))


@pytest.mark.parametrize("path", ["con.txt", "x\u202ey", "a\x1b[2J", "end.", "a//b", "nul", "x:stream"])
def test_paths_that_another_platform_or_a_terminal_reads_differently_are_refused(path: str) -> None:
    """Judged by POSIX and Windows rules alike."""
    with pytest.raises(CorruptError):
        parse_lock({**GOOD, "files": [{**GOOD["files"][0], "path": path}]}, where="here")


@pytest.mark.parametrize("pair", [("a", "a"), ("License", "LICENSE"), ("\u00e9", "e\u0301")])
def test_two_paths_that_are_one_file_somewhere_are_refused(pair: tuple[str, str]) -> None:
    """Equal, or equal but for case or Unicode form."""
    files = [{**GOOD["files"][0], "path": path} for path in pair]
    with pytest.raises(CorruptError) as caught:
        parse_lock({**GOOD, "files": files}, where="here")
    assert "case-collision" == caught.value.code


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", CorruptError),
        (b"[]", CorruptError),
        (b'{"schema": 1, "schema": 2}', CorruptError),
        (b"\xef\xbb\xbf{}", CorruptError),
        (b"{" * 99, CorruptError),
        (b" " * (2 << 20), LimitError),
    ],
)
def test_a_lock_that_is_no_json_object_is_refused(root: Path, data: bytes, kind: type[ForgepackError]) -> None:
    """Never an exception of another kind."""
    (root / LOCK_NAME).write_bytes(data)
    with pytest.raises(kind):
        require_locked(root, PROFILE)


def test_readers_accept_a_folder_whose_files_are_the_locks(root: Path) -> None:
    """By sizes and by bytes."""
    assert lock_of() == require_locked(root, PROFILE)
    seen: list[tuple[str, int]] = []
    assert lock_of() == require_locked(root, PROFILE, hashed=True, progress=lambda p, n: seen.append((p, n)))
    assert [(name, len(data)) for name, data in sorted(FILES.items())] == seen


def test_readers_demand_a_lock(tmp_path: Path) -> None:
    """Its absence names the two commands that make one."""
    with pytest.raises(MissingError) as caught:
        require_locked(tmp_path, PROFILE)
    assert ("lock-missing", 4) == (caught.value.code, caught.value.exit_code)
    assert "--adopt" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("pin", "code"),
    [
        ({"commit": "0" * 40}, "lock-commit"),
        ({"repo": "forge/other"}, "lock-repo"),
        ({"files": (*FILES, "NOTICE")}, "lock-files"),
    ],
)
def test_readers_refuse_another_profiles_checkpoint(root: Path, pin: dict[str, Any], code: str) -> None:
    """A moved commit, another repository, a file that the lock does not cover."""
    with pytest.raises(IdentityError) as caught:
        require_locked(root, replace(PROFILE, hub=replace(PROFILE.hub, **pin)))
    assert (code, 4) == (caught.value.code, caught.value.exit_code)


def test_readers_refuse_a_digest_that_the_profile_knows_to_be_wrong(root: Path) -> None:
    """Also when the profile learned of it after the fetch."""
    bad = sha256_hex(FILES["model.safetensors"])
    with pytest.raises(IdentityError) as caught:
        require_locked(root, replace(PROFILE, known_bad={bad: "the donor"}))
    assert "known-bad" == caught.value.code
    assert "the donor" in str(caught.value.found)


def test_sizes_and_kinds_are_seen_without_reading(root: Path) -> None:
    """Missing, longer, a link, a folder: all listed at once."""
    (root / "LICENSE").unlink()
    (root / "config.json").write_bytes(b"{ }")
    (root / "model.safetensors").rename(root / "real")
    (root / "model.safetensors").symlink_to("real")
    found = size_differences(root, lock_of())
    assert [("LICENSE", "missing"), ("config.json", "bytes"), ("model.safetensors", "kind")] == [
        (d.path, d.kind) for d in found
    ]
    assert found == byte_differences(root, lock_of())
    with pytest.raises(IdentityError, match="3 file") as caught:
        require_locked(root, PROFILE)
    assert "lock-differs" == caught.value.code
    (root / "model.safetensors").unlink()
    os.mkfifo(root / "model.safetensors")
    assert "kind" == size_differences(root, lock_of())[2].kind


def test_a_changed_byte_is_seen_by_hashing_alone(root: Path) -> None:
    """The cheap check trusts sizes; the full one names both digests."""
    (root / "model.safetensors").write_bytes(FILES["model.safetensors"][::-1])
    require_locked(root, PROFILE)
    with pytest.raises(IdentityError) as caught:
        require_locked(root, PROFILE, hashed=True)
    for data in (FILES["model.safetensors"], FILES["model.safetensors"][::-1]):
        assert sha256_hex(data) in str(caught.value.found)


def test_a_lock_that_can_not_be_written_leaves_the_old_one(root: Path) -> None:
    """A link in the lock's place gives way and is not followed; a folder in its place stays."""
    (root / LOCK_NAME).unlink()
    (root / LOCK_NAME).symlink_to("config.json")
    write_lock(root, lock_of())
    assert FILES["config.json"] == (root / "config.json").read_bytes()
    assert lock_of() == read_lock(root)
    (root / LOCK_NAME).unlink()
    (root / LOCK_NAME).mkdir()
    for place in (root, root / "nowhere"):
        with pytest.raises(OutputError) as caught:
            write_lock(place, lock_of())
        assert 5 == caught.value.exit_code
    assert [] == list(root.glob(".forgepack-tmp-*"))


def test_the_digest_tells_adopted_from_fetched() -> None:
    """Whoever records the digest records how the bytes were had."""
    assert lock_of().digest != replace(lock_of(), adopted=True).digest


def test_a_file_is_found_by_its_path() -> None:
    """None when the lock does not cover it."""
    assert 256 == (lock_of().file("model.safetensors") or lock_of().files[0]).bytes
    assert lock_of().file("NOTICE") is None
