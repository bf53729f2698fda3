"""The hub on loopback itself: what the demo and the tests rely on."""

from __future__ import annotations

import socket
from pathlib import Path

from huggingface_hub import HfApi

from forgepack.miniature.small_hub import git_blob_id
from tests.hub.bench import COMMIT, OTHER, REPO
from tests.hub.loopback import LoopbackHub


def test_a_folder_is_served_without_its_locks_and_hidden_files(tmp_path: Path) -> None:
    """What the demo serves is the checkpoint alone."""
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("a.txt", "sub/b.safetensors", "checkpoint.lock.json", ".hidden/c", ".d"):
        (tmp_path / name).write_bytes(name.encode())
    with LoopbackHub.serve({REPO: {COMMIT: tmp_path}}) as hub:
        files = hub.repos.repos[REPO].commits[COMMIT]
    assert {"a.txt": b"a.txt", "sub/b.safetensors": b"sub/b.safetensors"} == {p: f.data for p, f in files.items()}
    assert [False, True] == [f.lfs for f in files.values()]


def test_the_real_client_reads_refs_and_commits() -> None:
    """The branch main is the last commit added; both commits stay."""
    content = {REPO: {COMMIT: {"a": b"1"}, OTHER: {"a": b"2"}}}
    with LoopbackHub.serve(content) as hub:
        api = HfApi(endpoint=hub.url, token=False)
        assert OTHER == api.model_info(REPO).sha
        assert COMMIT == api.model_info(REPO, revision=COMMIT).sha
        tree = {f.path: f.blob_id for f in api.list_repo_tree(REPO, revision=COMMIT)}
    assert {"a": git_blob_id(b"1")} == tree


def test_git_blob_ids_are_gits() -> None:
    """The id of the empty blob is well known."""
    assert "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391" == git_blob_id(b"")


def test_two_hubs_live_side_by_side_and_close() -> None:
    """Each has its own port; after the block nothing listens."""
    with LoopbackHub() as one, LoopbackHub(storage=True) as two:
        assert one.url != two.url
        port = int(one.url.rpartition(":")[2])
    with socket.socket() as probe:
        assert 0 != probe.connect_ex(("127.0.0.1", port))
