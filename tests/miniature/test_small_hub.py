"""The demonstration's hub: the real client takes a folder from it, whole and in ranges."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from huggingface_hub import HfApi

from forgepack.miniature.small_hub import git_blob_id, small_hub

REPO, COMMIT = "forge/mini", "ab" * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("a.txt", "sub/b.safetensors", "checkpoint.lock.json", ".hidden/c", ".d"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def test_the_real_client_lists_what_is_no_lock_and_not_hidden(folder: Path) -> None:
    """A file in LFS is named by its digest, any other by its blob id."""
    with small_hub(REPO, COMMIT, folder) as hub:
        api = HfApi(endpoint=hub.url, token=False)
        assert COMMIT == api.model_info(REPO, revision=COMMIT).sha
        tree = {file.path: file for file in api.list_repo_tree(REPO, revision=COMMIT, recursive=True)}
    assert {"sub", "a.txt", "sub/b.safetensors"} == set(tree)
    assert git_blob_id(b"a.txt") == tree["a.txt"].blob_id
    assert hashlib.sha256(b"sub/b.safetensors").hexdigest() == tree["sub/b.safetensors"].lfs.sha256


def test_a_file_comes_whole_or_from_a_byte_on(folder: Path) -> None:
    with small_hub(REPO, COMMIT, folder) as hub:
        url = f"{hub.url}/{REPO}/resolve/{COMMIT}/sub/b.safetensors"
        with urlopen(url) as whole, urlopen(Request(url, headers={"Range": "bytes=4-"})) as rest:
            assert (b"sub/b.safetensors", b"b.safetensors", 206) == (whole.read(), rest.read(), rest.status)


@pytest.mark.parametrize("path", [f"/{REPO}/resolve/{COMMIT}/none", f"/{REPO}/resolve/main/a.txt", "/api/models/x/y"])
def test_anything_else_is_not_found(folder: Path, path: str) -> None:
    with small_hub(REPO, COMMIT, folder) as hub, pytest.raises(HTTPError, match="404"):
        urlopen(hub.url + path)
