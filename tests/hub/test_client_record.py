"""A folder that a client of the hub filled: whatever its records and names state is compared with what is adopted."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepack.artifacts.lock import LOCK_NAME, read_lock
from forgepack.canonical import sha256_hex
from forgepack.errors import CorruptError, ForgepackError, IdentityError, MissingError
from tests.hub.bench import COMMIT, OTHER, REPO, Bench, tree_of
from tests.hub.test_adopt import SMALL, adopt, source, write_weights  # noqa: F401  (a fixture)

NAMES = ("LICENSE", "NOTICE", "config.json", "model.safetensors")
CACHE = f"models--{REPO.replace('/', '--')}"


def git_blob(data: bytes) -> str:
    """Return the id of a git blob."""
    return hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()


def etag(name: str, data: bytes) -> str:
    """Return the name that the client gives a file's bytes: SHA-256 in LFS, else the blob's id."""
    return sha256_hex(data) if name == "model.safetensors" else git_blob(data)


def note(folder: Path, name: str, text: str, notes: str = ".cache/huggingface") -> None:
    """Write the client's note of one file of a local folder."""
    path = folder / notes / "download" / f"{name}.metadata"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def noted(folder: Path) -> None:
    """Write the notes of a genuine download into a local folder."""
    for name in NAMES:
        note(folder, name, f"{COMMIT}\n{etag(name, (folder / name).read_bytes())}\n1.0\n")


def cached(folder: Path, root: Path, commit: str = COMMIT, repo: str = CACHE) -> Path:
    """Turn a folder into a client's cache and return its snapshot."""
    snapshot, blobs = root / repo / "snapshots" / commit, root / repo / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for file in sorted(folder.iterdir()):
        blob = blobs / etag(file.name, file.read_bytes())
        file.rename(blob)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    (root / repo / "refs").mkdir()
    (root / repo / "refs/main").write_text(OTHER)  # a branch that has moved on
    return snapshot


def evidence(folder: Path) -> set[str | None]:
    """Return what the lock of a folder states of its files."""
    return {file.evidence for file in read_lock(folder).files}


def refused(bench: Bench, folder: Path) -> ForgepackError:
    """Adopt a folder, which must be refused with exit 4 and without a lock."""
    with pytest.raises(ForgepackError) as caught:
        adopt(bench, folder, out=bench.out, force=True)
    assert 4 == caught.value.exit_code
    assert not (bench.out / LOCK_NAME).exists()
    assert not (folder / LOCK_NAME).exists()
    return caught.value


def test_what_agrees_is_recorded_as_such(bench: Bench, source: Path, tmp_path: Path) -> None:  # noqa: F811
    """Nothing, the commit alone, the digest alone, both: the lock says which, and the notes name the files."""
    assert "no record of a client: LICENSE, NOTICE, config.json, model.safetensors" in adopt(bench, source).notes
    assert {"none"} == evidence(source)
    for name in NAMES:
        note(source, name, f"{COMMIT}\nno digest\n1.0\n")
    adopt(bench, source)
    assert {"commit"} == evidence(source)
    for name in NAMES:
        note(source, name, f"main\n{etag(name, (source / name).read_bytes())}\n")
    adopt(bench, source)
    assert {"digest"} == evidence(source)
    noted(source)
    report = adopt(bench, source)
    assert {"client"} == evidence(source)
    assert "agrees with the client's record: LICENSE, NOTICE, config.json, model.safetensors" in report.notes


def test_a_genuine_cache_agrees(bench: Bench, source: Path, tmp_path: Path) -> None:  # noqa: F811
    """Its snapshot, a link to that, and a folder of links to its files; a branch that has moved on is no matter."""
    snapshot = cached(source, tmp_path / "hub")
    (tmp_path / "short").symlink_to(snapshot)
    (tmp_path / "mine").mkdir()
    for name in NAMES:
        (tmp_path / "mine" / name).symlink_to(snapshot / name)
    for folder in (snapshot, tmp_path / "short", tmp_path / "mine"):
        adopt(bench, folder, out=bench.out, force=True)
        assert {"client"} == evidence(bench.out)
        assert COMMIT == read_lock(bench.out).commit


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("notes", [".cache/huggingface", ".huggingface"])
def test_a_note_of_another_commit_or_digest_is_refused(
    bench: Bench,
    source: Path,  # noqa: F811
    name: str,
    notes: str,
) -> None:
    """Each file's record is compared, in both folders where a client keeps it, however it spells the digest."""
    data = (source / name).read_bytes()
    note(source, name, f"{OTHER}\n{etag(name, data)}\n1.0\n", notes)
    error = refused(bench, source)
    assert ("wrong-commit", COMMIT, OTHER) == (error.code, error.expected, error.found)
    for stated, found in (("1" * 64, sha256_hex(data)), ("2" * 40, git_blob(data))):
        for text in (stated, f'"{stated}"', f'W/"{stated.upper()}"'):
            note(source, name, f"{COMMIT}\n{text}\n1.0\n", notes)
            error = refused(bench, source)
            assert ("wrong-bytes", stated, found) == (error.code, error.expected, error.found)
            assert name in str(error.where)


@pytest.mark.parametrize("key", ["lfs_sha256", "blob_id"])
def test_the_clients_list_of_the_commit_is_compared(bench: Bench, source: Path, key: str) -> None:  # noqa: F811
    """trees/COMMIT.json names each file's digest; that of another commit says nothing of this one."""
    trees = source / ".cache/huggingface/trees"
    trees.mkdir(parents=True)
    stated = "3" * (64 if key == "lfs_sha256" else 40)
    entry = {"size": 1, "blob_id": "4" * 40, key: stated}
    listed = {"format_version": 1, "files": {"model.safetensors": entry}}
    (trees / f"{OTHER}.json").write_text(json.dumps(listed))
    adopt(bench, source, dry_run=True)
    (trees / f"{COMMIT}.json").write_text(json.dumps(listed))
    error = refused(bench, source)
    assert ("wrong-bytes", stated) == (error.code, error.expected)


def test_a_snapshot_of_another_commit_is_refused(bench: Bench, source: Path, tmp_path: Path) -> None:  # noqa: F811
    """By its folder's name, however it is named: through a link, from inside, or with a trailing dot."""
    snapshot = cached(source, tmp_path / "hub", commit="1" * 40)
    (tmp_path / "short").symlink_to(snapshot)
    for folder in (snapshot, tmp_path / "short", snapshot / "."):
        error = refused(bench, folder)
        assert ("wrong-commit", COMMIT, "1" * 40) == (error.code, error.expected, error.found)
    adopt(bench, snapshot, out=bench.out, revision="1" * 40)


def test_a_snapshot_without_links_is_judged_by_its_name(bench: Bench, source: Path, tmp_path: Path) -> None:  # noqa: F811
    """Where the file system has no links, a snapshot holds the files themselves."""
    snapshot = tmp_path / "hub" / CACHE / "snapshots" / OTHER
    snapshot.parent.mkdir(parents=True)
    source.rename(snapshot)
    assert "wrong-commit" == refused(bench, snapshot).code
    right = snapshot.rename(snapshot.parent / COMMIT)
    adopt(bench, right)
    assert {"commit"} == evidence(right)


def test_another_repository_is_refused(bench: Bench, source: Path, tmp_path: Path) -> None:  # noqa: F811
    """A cache's folder names its repository: the same commit of another is another checkpoint."""
    error = refused(bench, cached(source, tmp_path / "hub", repo="models--z-lab--donor"))
    assert ("wrong-repo", REPO, "z-lab/donor") == (error.code, error.expected, error.found)


def poisoned(snapshot: Path) -> None:
    """Put other weights of the same shapes into the blob that the snapshot links to."""
    write_weights((snapshot / "model.safetensors").resolve(), seed=9)


def text_poisoned(snapshot: Path) -> None:
    """Put another text of the same length into a small file's blob."""
    blob = (snapshot / "NOTICE").resolve()
    blob.write_bytes(blob.read_bytes()[::-1])


def swapped(snapshot: Path) -> None:
    """Let two files' links change places."""
    for name, other in (("LICENSE", "NOTICE"),):
        first, second = (snapshot / name).readlink(), (snapshot / other).readlink()
        for path, target in ((snapshot / name, second), (snapshot / other, first)):
            path.unlink()
            path.symlink_to(target)
    tree = {"files": {"NOTICE": {"blob_id": git_blob((snapshot / "LICENSE").read_bytes())}}}
    (snapshot.parents[1] / "trees").mkdir()
    (snapshot.parents[1] / "trees" / f"{COMMIT}.json").write_text(json.dumps(tree))


def moved(snapshot: Path) -> None:
    """Let the cache's own name for the commit point to another, as a redirecting mirror leaves it."""
    (snapshot.parents[1] / "refs" / COMMIT).write_text(OTHER)


def not_there(snapshot: Path) -> None:
    """Let the client have noted that the commit holds no such file."""
    place = snapshot.parents[1] / ".no_exist" / COMMIT
    place.mkdir(parents=True)
    (place / "NOTICE").write_bytes(b"")


def escaping(snapshot: Path) -> None:
    """Let a small file's link lead out of the cache."""
    secret = snapshot.parents[3] / "secret"
    secret.write_text("a key of this machine\n")
    (snapshot / "NOTICE").unlink()
    (snapshot / "NOTICE").symlink_to(secret)


def dangling(snapshot: Path) -> None:
    """Remove the blob that a link leads to."""
    (snapshot / "model.safetensors").resolve().unlink()


def looping(snapshot: Path) -> None:
    """Let a link lead to itself."""
    (snapshot / "NOTICE").unlink()
    (snapshot / "NOTICE").symlink_to("NOTICE")


@pytest.mark.parametrize(
    ("change", "kind", "code"),
    [
        (poisoned, IdentityError, "wrong-bytes"),
        (text_poisoned, IdentityError, "wrong-bytes"),
        (swapped, IdentityError, "wrong-bytes"),
        (moved, IdentityError, "wrong-commit"),
        (not_there, IdentityError, "wrong-commit"),
        (escaping, CorruptError, "link-escape"),
        (dangling, MissingError, "missing"),
        (looping, CorruptError, "link-loop"),
    ],
)
def test_a_cache_that_contradicts_itself_is_refused(
    bench: Bench,
    source: Path,  # noqa: F811
    tmp_path: Path,
    *,
    change: Callable[[Path], None],
    kind: type[ForgepackError],
    code: str,
) -> None:
    """Its names and records state digests and commits that its bytes must have; nothing of it is changed."""
    snapshot = cached(source, tmp_path / "hub")
    change(snapshot)
    before = tree_of(tmp_path / "hub") if code != "link-loop" else {}
    error = refused(bench, snapshot)
    assert (kind, code) == (type(error), error.code)
    assert error.hint
    assert before == (tree_of(tmp_path / "hub") if before else {})


def test_a_plain_folders_link_to_this_machine_is_refused(bench: Bench, source: Path, tmp_path: Path) -> None:  # noqa: F811
    """What is adopted is published in the end: a link of an unpacked archive must bring no file of this machine."""
    (tmp_path / "key").write_text("secret\n")
    (source / "NOTICE").unlink()
    (source / "NOTICE").symlink_to(tmp_path / "key")
    assert "link-escape" == refused(bench, source).code


def test_a_note_that_is_no_file_is_an_error_and_never_waited_for(bench: Bench, source: Path) -> None:  # noqa: F811
    """A pipe in the place of a note ends with 4 at once."""
    place = source / ".cache/huggingface/download"
    place.mkdir(parents=True)
    os.mkfifo(place / "NOTICE.metadata")
    assert "not-regular" == refused(bench, source).code
