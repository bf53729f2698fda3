"""A whole fetch against the real client: what lands, what is refused, what a second run does."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forgepack.artifacts.lock import LOCK_NAME
from forgepack.artifacts.locked import require_locked
from forgepack.errors import CorruptError, HubError, IdentityError, MissingError, OutputError, UsageError
from tests.hub.bench import COMMIT, DONOR, FILES, OTHER, PROFILE, REPO, WEIGHTS, Bench, expected_tree, tree_of
from tests.hub.loopback import LoopbackHub


def test_a_fetch_leaves_the_profiles_files_and_the_lock_and_nothing_else(bench: Bench) -> None:
    """The folder holds exactly the profile's files and a canonical lock; the repository's other files stay away."""
    report = bench.fetch()
    assert expected_tree() == tree_of(bench.out)
    assert ["downloaded"] * 5 == [f.action for f in report.files]
    assert len(WEIGHTS) == next(f.received for f in report.files if f.path == "model.safetensors")
    assert report.lock == require_locked(bench.out, PROFILE, hashed=True)
    assert [] == [path for path in bench.asked() if "huge" in path or "main" in path]


def test_two_fetches_write_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    """Nothing of time, place or order gets into the folder."""
    bench.fetch()
    other = Bench(bench.hub, tmp_path / "deep" / "elsewhere")
    other.fetch()
    assert tree_of(bench.out) == tree_of(other.out)


def test_a_second_fetch_reads_every_byte_and_asks_nothing(bench: Bench) -> None:
    """A complete folder costs no request, not even a listing."""
    bench.fetch()
    bench.hub.log.clear()
    report = bench.fetch()
    assert [] == bench.hub.log
    assert ["verified"] * 5 == [f.action for f in report.files]
    assert expected_tree() == tree_of(bench.out)


def test_a_missing_file_is_brought_again(bench: Bench) -> None:
    """A file that was deleted is fetched alone."""
    bench.fetch()
    (bench.out / "NOTICE").unlink()
    bench.hub.log.clear()
    report = bench.fetch()
    assert {"NOTICE": "downloaded"} == {f.path: f.action for f in report.files if f.action != "kept"}
    assert [f"/{REPO}/resolve/{COMMIT}/NOTICE"] == [p for p in bench.asked() if "/resolve/" in p]
    assert expected_tree() == tree_of(bench.out)


@pytest.mark.parametrize("damage", [b"", b"short", bytes(len(WEIGHTS)), WEIGHTS + b"x"])
def test_a_file_that_changed_since_is_named_and_never_overwritten_unasked(bench: Bench, damage: bytes) -> None:
    """Other bytes are reported without a request; --force fetches that file again."""
    bench.fetch()
    (bench.out / "model.safetensors").write_bytes(damage)
    bench.hub.log.clear()
    with pytest.raises(IdentityError, match=r"model\.safetensors: expected") as caught:
        bench.fetch()
    assert ("lock-differs", []) == (caught.value.code, bench.hub.log)
    assert damage == (bench.out / "model.safetensors").read_bytes()
    bench.fetch(force=True)
    assert expected_tree() == tree_of(bench.out)


def test_right_files_without_a_lock_are_kept(bench: Bench) -> None:
    """Files that lie there already are hashed against the hub's record and not fetched again."""
    bench.out.mkdir()
    for name in ("LICENSE", "model.safetensors"):
        (bench.out / name).write_bytes(FILES[name])
    report = bench.fetch()
    assert ["LICENSE", "model.safetensors"] == [f.path for f in report.files if f.action == "kept"]
    assert expected_tree() == tree_of(bench.out)


def test_foreign_files_without_a_lock_are_not_overwritten(bench: Bench) -> None:
    """A folder with other files of the same names is refused as a whole, before a byte is fetched."""
    bench.out.mkdir()
    (bench.out / "config.json").write_bytes(b"{}")
    (bench.out / "NOTICE").symlink_to("/etc/hostname")
    before = {p.name for p in bench.out.iterdir()}
    with pytest.raises(IdentityError, match="2 file") as caught:
        bench.fetch()
    assert "out-differs" == caught.value.code
    assert before == {p.name for p in bench.out.iterdir()}
    with pytest.raises(UsageError, match="did not write") as foreign:
        bench.fetch(force=True)
    assert "NOTICE, config.json" == foreign.value.found
    assert b"{}" == (bench.out / "config.json").read_bytes()


def test_another_commit_needs_its_own_folder_or_force(bench: Bench) -> None:
    """A folder that is locked to one commit is not turned into another unasked."""
    bench.hub.add(REPO, OTHER, {**FILES, "NOTICE": b"Another notice\n"})
    bench.fetch()
    with pytest.raises(IdentityError) as caught:
        bench.fetch(revision=OTHER)
    assert ("lock-commit", OTHER, COMMIT) == (caught.value.code, caught.value.expected, caught.value.found)
    report = bench.fetch(revision=OTHER, force=True)
    assert ["NOTICE"] == [f.path for f in report.files if f.action == "downloaded"]
    assert expected_tree({**FILES, "NOTICE": b"Another notice\n"}, OTHER) == tree_of(bench.out)


def test_a_commit_that_the_profile_does_not_pin_is_fetched_but_refused_by_readers(bench: Bench) -> None:
    """ExtraFiles explicitly it is taken, with a note; the lock then fails every reader that judges by the profile."""
    bench.hub.add(REPO, OTHER, FILES)
    report = bench.fetch(revision=OTHER)
    assert "will refuse" in report.notes[0]
    with pytest.raises(IdentityError) as caught:
        require_locked(bench.out, PROFILE)
    assert "lock-commit" == caught.value.code
    assert report.lock == require_locked(bench.out, replace(PROFILE, hub=replace(PROFILE.hub, commit=OTHER)))


def test_a_moved_branch_changes_nothing(bench: Bench) -> None:
    """The branch moves between two runs; the pinned commit gives the same bytes and the branch is never asked."""
    bench.hub.fault("GET", "config.json", drop=True, times=6)
    with pytest.raises(HubError):
        bench.fetch()
    bench.hub.add(REPO, OTHER, {**FILES, "model.safetensors": WEIGHTS[::-1]})
    bench.fetch()
    assert expected_tree() == tree_of(bench.out)
    assert [] == [p for p in bench.asked("HEAD") + bench.asked() if "main" in p]


@pytest.mark.parametrize(
    "revision", ["main", "v1.0", "refs/pr/1", "4cfb6ad", COMMIT[:39], COMMIT + "0", "", "../x", "a\nb", "\udcff"]
)
def test_a_revision_that_is_no_full_commit_is_refused(bench: Bench, revision: str) -> None:
    """Nothing is downloaded and nothing written; at most one look-up is made."""
    with pytest.raises(UsageError) as caught:
        bench.fetch(revision=revision)
    assert ("revision", 2) == (caught.value.code, caught.value.exit_code)
    assert len(bench.hub.log) <= 1
    assert not bench.out.exists()


def test_the_look_up_names_the_commit_that_a_branch_points_to(bench: Bench) -> None:
    """One request, and the hint holds the commit to give instead."""
    with pytest.raises(UsageError) as caught:
        bench.fetch(revision="main")
    assert f"it points to {COMMIT} now; if that is the one you mean: --revision {COMMIT}" == caught.value.hint
    assert [f"/api/models/{REPO}/revision/main"] == bench.asked()


@pytest.mark.parametrize(
    "damage",
    [
        {"status": 503},
        {"drop": True},
        {"body": b"<html>"},
        {"body": b"{}"},
        {"body": b'{"id": "a/b", "sha": "\\u001b[2J"}'},
        {"status": 302, "headers": {"Location": "http://["}},
    ],
)
def test_a_look_up_that_fails_changes_nothing(bench: Bench, damage: dict[str, object]) -> None:
    """The refusal is the same whatever the hub answers, after one request."""
    bench.hub.fault("GET", "/revision/", times=9, **damage)
    with pytest.raises(UsageError) as caught:
        bench.fetch(revision="main")
    assert "leave --revision out" in str(caught.value.hint)
    assert (1, []) == (len(bench.hub.log), bench.sleeps)


def test_an_upper_case_commit_is_refused_with_the_right_spelling(bench: Bench) -> None:
    """No look-up is needed for the hint."""
    with pytest.raises(UsageError) as caught:
        bench.fetch(revision=COMMIT.upper())
    assert (f"--revision {COMMIT}", []) == (caught.value.hint, bench.hub.log)


def test_the_donors_weights_are_refused_before_a_byte_is_downloaded(tmp_path: Path) -> None:
    """The listing's digest is enough."""
    with LoopbackHub.serve({REPO: {COMMIT: {**FILES, "model.safetensors": b"donor"}}}) as hub:
        bench = Bench(hub, tmp_path / "out")
        with pytest.raises(IdentityError, match="knows to be wrong") as caught:
            bench.fetch()
        assert "known-bad" == caught.value.code
        assert DONOR in str(caught.value.found)
        assert [] == [p for p in bench.asked() if "/resolve/" in p]
        assert {} == tree_of(bench.out)


def test_known_bad_bytes_behind_a_right_record_are_refused_and_dropped(bench: Bench) -> None:
    """A hub that lists the right digest and serves known-wrong bytes is caught by the hash."""
    bad = WEIGHTS[::-1]
    profile = replace(PROFILE, known_bad={hashlib.sha256(bad).hexdigest(): "reversed"})
    bench.hub.fault("GET", "model.safetensors", times=9, body=bad)
    with pytest.raises(IdentityError) as caught:
        bench.fetch(profile=profile)
    assert "known-bad" == caught.value.code
    assert len(WEIGHTS) not in bench.parts()
    assert not bench.complete()


def test_a_known_bad_digest_in_a_lock_is_refused_without_network(bench: Bench) -> None:
    """A profile may learn of a bad digest after the fetch."""
    bench.fetch()
    profile = replace(PROFILE, known_bad={hashlib.sha256(WEIGHTS).hexdigest(): "withdrawn"})
    with pytest.raises(IdentityError, match="knows to be wrong"):
        bench.fetch(profile=profile)
    with pytest.raises(IdentityError, match="knows to be wrong"):
        bench.verify(profile)


def test_a_commit_that_lacks_a_required_file_is_refused(tmp_path: Path) -> None:
    """The error names the file and shows what the commit has."""
    files = {k: v for k, v in FILES.items() if k != "NOTICE"}
    with LoopbackHub.serve({REPO: {COMMIT: files}}) as hub:
        bench = Bench(hub, tmp_path / "out")
        with pytest.raises(HubError) as caught:
            bench.fetch()
    assert ("hub-file-missing", "NOTICE") == (caught.value.code, caught.value.expected)
    assert "README.md" in str(caught.value.found)
    assert {} == tree_of(bench.out)


def test_a_folder_in_the_place_of_a_required_file_counts_as_missing(tmp_path: Path) -> None:
    """A directory entry of that name is no file."""
    files = {**{k: v for k, v in FILES.items() if k != "NOTICE"}, "NOTICE/x": b"y"}
    with LoopbackHub.serve({REPO: {COMMIT: files}}) as hub, pytest.raises(HubError) as caught:
        Bench(hub, tmp_path / "out").fetch()
    assert "hub-file-missing" == caught.value.code


def test_a_hub_that_rewrites_a_commit_is_refused(bench: Bench) -> None:
    """The lock remembers the record; the same commit with other digests is not repaired from."""
    bench.fetch()
    (bench.out / "NOTICE").unlink()
    bench.hub.add(REPO, COMMIT, {**FILES, "model.safetensors": WEIGHTS[::-1]})
    with pytest.raises(IdentityError) as caught:
        bench.fetch()
    assert "record-changed" == caught.value.code
    bench.hub.add(REPO, COMMIT, {**FILES, "NOTICE": FILES["NOTICE"][::-1]})
    with pytest.raises(IdentityError) as caught:
        bench.fetch()
    assert "record-changed" == caught.value.code
    assert not (bench.out / "NOTICE").exists()


def test_offline_verifies_every_byte_without_network(bench: Bench) -> None:
    """The report is that of a verified folder, and a changed byte is named with both digests."""
    bench.fetch()
    bench.hub.log.clear()
    report = bench.verify()
    assert (["verified"] * 5, []) == ([f.action for f in report.files], bench.hub.log)
    damaged = bytearray(WEIGHTS)
    damaged[1234] ^= 1
    (bench.out / "model.safetensors").write_bytes(damaged)
    with pytest.raises(IdentityError) as caught:
        bench.verify()
    assert hashlib.sha256(WEIGHTS).hexdigest() in str(caught.value.found)
    assert hashlib.sha256(damaged).hexdigest() in str(caught.value.found)


def test_offline_without_folder_lock_or_file_says_which(bench: Bench) -> None:
    """Absent folder: usage. Absent lock: missing. Absent file: a difference."""
    with pytest.raises(UsageError):
        bench.verify()
    bench.out.mkdir()
    with pytest.raises(MissingError) as missing:
        bench.verify()
    assert "lock-missing" == missing.value.code
    bench.fetch()
    (bench.out / "LICENSE").unlink()
    with pytest.raises(IdentityError, match="LICENSE: expected 19 bytes, found no file"):
        bench.verify()


def test_a_damaged_lock_is_an_error_until_force(bench: Bench) -> None:
    """It is never taken for no lock."""
    bench.fetch()
    (bench.out / LOCK_NAME).write_bytes(b"{")
    with pytest.raises(CorruptError):
        bench.fetch()
    report = bench.fetch(force=True)
    assert ["kept"] * 5 == [f.action for f in report.files]
    assert expected_tree() == tree_of(bench.out)


def test_a_dry_run_writes_nothing_and_names_files_bytes_and_space(bench: Bench) -> None:
    """Neither folder nor lock appears; with a part waiting only the rest is needed."""
    bench.free = 123
    report = bench.fetch(dry_run=True)
    total = sum(len(FILES[f.path]) for f in report.files)
    assert (True, total, 123, None) == (report.dry_run, report.needed, report.free, report.lock)
    assert {"planned"} == {f.action for f in report.files}
    assert not bench.out.exists()
    bench.free = 1 << 40
    bench.hub.fault("GET", "model.safetensors", cut=100_000)
    bench.hub.fault("GET", "model.safetensors", status=403)
    with pytest.raises(HubError):
        bench.fetch()
    before = tree_of(bench.out)
    report = bench.fetch(dry_run=True)
    assert len(WEIGHTS) - 100_000 == report.needed
    assert before == tree_of(bench.out)


def test_a_dry_run_on_a_complete_folder_verifies_it(bench: Bench) -> None:
    """There is nothing to plan."""
    bench.fetch()
    report = bench.fetch(dry_run=True)
    assert {"verified"} == {f.action for f in report.files}


def test_too_little_space_is_said_before_the_download(bench: Bench) -> None:
    """Needed and free bytes are named, and no folder is left."""
    bench.free = 1000
    with pytest.raises(OutputError) as caught:
        bench.fetch()
    assert ("disk-full", 5, "1000 bytes free") == (caught.value.code, caught.value.exit_code, caught.value.found)
    assert [] == [p for p in bench.asked() if "/resolve/" in p]
    assert not bench.out.exists()


@pytest.mark.parametrize(
    "name", ["../up", "/abs", "a/../../b", "C:x", "a\\b", "con.txt", "x\x00", ".forgepack-fetch/lock"]
)
def test_a_profile_with_a_hostile_file_name_is_refused(bench: Bench, name: str) -> None:
    """No request is made for it."""
    profile = replace(PROFILE, hub=replace(PROFILE.hub, files=(*PROFILE.hub.files, name)))
    with pytest.raises(UsageError) as caught:
        bench.fetch(profile=profile)
    assert ("path-escape", []) == (caught.value.code, bench.hub.log)


@pytest.mark.parametrize(("key", "value"), [("repo", "no-slash"), ("repo", "../x/y"), ("commit", "main")])
def test_a_profile_that_pins_no_commit_of_no_repository_is_refused(bench: Bench, key: str, value: str) -> None:
    """A profile of one's own may be wrong: usage, naming the field."""
    pin: dict[str, Any] = {key: value}
    profile = replace(PROFILE, hub=replace(PROFILE.hub, **pin))
    with pytest.raises(UsageError) as caught:
        bench.fetch(profile=profile)
    assert f"bench: hub.{key}" == caught.value.where


def test_a_link_that_leads_out_of_the_folder_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    """Neither for writing, nor as the place of a file."""
    profile = replace(PROFILE, hub=replace(PROFILE.hub, files=("other/huge.gguf",), optional_files=()))
    outside = tmp_path / "outside"
    outside.mkdir()
    bench.out.mkdir()
    (bench.out / "other").symlink_to(outside)
    with pytest.raises(OutputError):
        bench.fetch(profile=profile)
    assert ([], False) == (list(outside.iterdir()), bench.complete())


def test_hostile_names_in_a_listing_are_never_used(tmp_path: Path) -> None:
    """Only names that the profile lists are taken, whatever else the hub offers."""
    hostile = {"../../escape": b"x", "/abs": b"x", "a\\..\\b": b"x", "\x1b[2J": b"x", "config.json/": b"x"}
    with LoopbackHub.serve({REPO: {COMMIT: {**FILES, **hostile}}}) as hub:
        bench = Bench(hub, tmp_path / "in" / "out")
        bench.fetch()
    assert expected_tree() == tree_of(bench.out)
    assert ["in", "in/out"] == sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_dir())


def test_files_in_folders_land_in_folders(tmp_path: Path) -> None:
    """A profile may name a file below a folder."""
    with LoopbackHub.serve({REPO: {COMMIT: FILES}}) as hub:
        bench = Bench(hub, tmp_path / "out")
        profile = replace(PROFILE, hub=replace(PROFILE.hub, files=("other/huge.gguf",), optional_files=()))
        bench.fetch(profile=profile)
    assert {"other/huge.gguf", LOCK_NAME} == set(tree_of(bench.out))


def test_an_empty_file_needs_no_request(tmp_path: Path) -> None:
    """A file of no bytes is proven by its record."""
    with LoopbackHub.serve({REPO: {COMMIT: {**FILES, "NOTICE": b"", "LICENSE": b""}}}) as hub:
        bench = Bench(hub, tmp_path / "out")
        bench.fetch()
        assert [] == [p for p in bench.asked() if p.endswith(("NOTICE", "LICENSE"))]
    assert expected_tree({**FILES, "NOTICE": b"", "LICENSE": b""}) == tree_of(bench.out)
