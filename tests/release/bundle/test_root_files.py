"""What a bundle's root holds beside the release: what tools put there is silent, anything else is told."""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path

import pytest

from forgepack.profile import Profile
from forgepack.verify.bundle import Bundle, find_bundle
from forgepack.verify.checks.coverage import TOOLS
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from tests.verify.factory import tiny_profile
from tests.verify.running import check_of, explain_all, roots, told

# One of each line of the table, and what a clone and a download into a folder hold beside it.
BY_TOOLS = [
    ".gitattributes",
    ".gitignore",
    ".git/config",
    ".git/objects/ab/cdef",
    ".cache/huggingface/download/README.md.metadata",
    ".cache/huggingface/.gitignore",
    ".DS_Store",
    "claims.jsonl",
    "release.intoto.jsonl",
    "model.sig",
    "release.json.sigstore",
    "SHA256SUMS.asc",
    "release.cdx.json",
    "release.spdx.json",
    "bom.json",
    "drafter.tiny.attestation.json",
]
UNLISTED = [
    "evil.sh",
    "notes.txt",
    ".hidden",
    ".env",
    "model.safetensors",
    "SHA256SUMS.bak",
    ".gitattributes.sh",
    "Model.sig2",
]


def looked_at(root: Path, profile: Profile | None = None) -> Report:
    return verify(Bundle(find_bundle(root), profile or tiny_profile(), Depth.HASH))


def put_file(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(b"x")


def test_what_tools_put_beside_a_release_is_not_told(bundle: Path) -> None:
    """Git, the hub's client, signatures and bills of material: none is a finding, even with --strict."""
    for name in BY_TOOLS:
        put_file(bundle, name)
    report = looked_at(bundle)
    assert "pass" == report.verdict, explain_all(report)
    assert "pass" == check_of(report, "CTR082").status, told(report, "CTR082")
    assert len(TOOLS) <= len(BY_TOOLS)


@pytest.mark.parametrize("name", UNLISTED)
def test_a_file_that_no_list_names_is_warned_of(bundle: Path, name: str) -> None:
    """A script, a hidden file or a name that only looks like a tool's is told by its name."""
    put_file(bundle, name)
    report = looked_at(bundle)
    assert ("pass", [f"bundle/{name}"]) == (report.verdict, [f.where for f in check_of(report, "CTR082").findings])


@pytest.mark.parametrize("folder", ["extra", ".hidden", ".cache", "coreml", "Export"])
def test_a_folder_that_no_list_names_is_told_once(bundle: Path, folder: str) -> None:
    """Whatever an unknown folder holds, one line names it; an empty one is told, too."""
    for name in ("a.bin", "deep/b.bin"):
        put_file(bundle, f"{folder}/{name}")
    (bundle / "empty").mkdir()
    found = [finding.where for finding in check_of(looked_at(bundle), "CTR082").findings]
    held = [f"bundle/{folder}/a.bin", f"bundle/{folder}/deep"] if folder == ".cache" else [f"bundle/{folder}"]
    assert sorted(["bundle/empty", *held]) == sorted(found)


def test_a_copy_of_the_models_config_at_the_root_is_legal(bundle: Path) -> None:
    """The hub counts downloads by a config.json at the root: the model's own, and no other."""
    shutil.copy(bundle / "model/config.json", bundle)
    assert "pass" == check_of(looked_at(bundle), "CTR082").status
    (bundle / "config.json").write_bytes((bundle / "model/config.json").read_bytes() + b"\n")
    assert "config.json" in told(looked_at(bundle), "CTR082")


def test_line_ends_are_told_from_a_cut_download(bundle: Path) -> None:
    """A text that git wrote with other line ends has lost nothing: the finding says so."""
    path = bundle / "LICENSE"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    report = looked_at(bundle)
    assert ["CTR046"] == roots(report)
    assert "it differs only in line ends" in told(report, "CTR046")
    path.write_bytes(path.read_bytes()[:-5])
    assert "line ends" not in told(looked_at(bundle), "CTR046")


def test_names_that_look_alike_are_shown_by_their_code_points(bundle: Path) -> None:
    """An accent in two Unicode forms prints alike: both names are shown so that they can be told apart."""
    name = "coreai/r\u00e9sum\u00e9.md"
    for form in ("NFC", "NFD"):
        put_file(bundle, unicodedata.normalize(form, name))
    text = told(looked_at(bundle), "PATH004")
    assert r"r\xe9sum\xe9" in text
    assert r"re\u0301sume\u0301" in text
