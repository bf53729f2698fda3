"""Partial downloads: what may be missing, and what that leaves to be said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forgepack.errors import NothingToVerifyError, UsageError
from tests.release.bench import STEM, TINY, edit, judged
from tests.release.bundle.release_check import check_release
from tests.verify.running import check_of, explain_all, roots, told


def test_export_is_optional(bare: Path) -> None:
    """A bundle without its export passes; the note says what is not here, and the head's own rules say nothing."""
    shutil.rmtree(bare / "export")
    check_release(bare, TINY, export=False)
    report = judged(bare)
    assert "pass" == report.verdict, explain_all(report)
    assert ["CTR055", "CTR083"] == [check.id for check in report.failed("note")]
    assert "component export" in told(report, "CTR055")
    assert "not-evaluated" == check_of(report, "HEAD001").status


def test_half_an_export_is_refused(bare: Path) -> None:
    """Some files of the export are a broken download, not an optional part."""
    (bare / "export/tiny_lr64mix/layer_03.safetensors").unlink()
    report = judged(bare)
    assert {"CTR045"} <= set(roots(report))
    assert "layer_03.safetensors" in told(report, "CTR045")


def test_plain_is_a_target_without_its_drafter(bare: Path) -> None:
    """With --plain a download without the drafter passes; rules of the drafter are not evaluated, none passes."""
    shutil.rmtree(bare / "drafter")
    check_release(bare, TINY, plain=True)
    report = judged(bare, plain=True)
    assert ("pass", 0) == (report.verdict, report.exit_code), explain_all(report)
    drafters = [c for c in report.checks if c.reason == "the drafter was left out by --plain"]
    assert {"LIC001", "LIC002", "CTR001", "CTR002", "PKG014", "CTR048"} <= {c.id for c in drafters}
    assert {("not-evaluated", False)} == {(c.status, c.required) for c in drafters}


def test_plain_does_not_look_at_a_drafter_that_is_there(bare: Path) -> None:
    """A drafter that is spoiled is no matter of a plain target."""
    (bare / f"drafter/{STEM}.json").write_text("{")
    (bare / "drafter/notes.bin").write_bytes(b"x")
    assert "pass" == judged(bare, plain=True).verdict


def test_plain_still_judges_the_target(bare: Path) -> None:
    """Files of the target are compared with the inventory, its manifest with the profile."""
    edit(bare / "coreai/manifest.json", lambda raw: raw.update(T=4))
    report = judged(bare, plain=True)
    assert ["CTR014", "CTR046"] == roots(report), explain_all(report)


def test_drafter_that_is_missing_is_refused_with_the_way_out(bare: Path) -> None:
    """Without --plain a missing drafter is one cause, and the text names the option."""
    shutil.rmtree(bare / "drafter")
    report = judged(bare)
    assert ("fail", 1) == (report.verdict, report.exit_code)
    assert ["CTR045"] == roots(report), explain_all(report)
    assert "--plain" in told(report, "CTR045")


def test_release_without_a_drafter_is_a_diagnostic(bare: Path) -> None:
    """A release that never had a drafter is refused unless it is looked at as a plain target."""
    shutil.rmtree(bare / "drafter")

    def forget(release: dict[str, object]) -> None:
        files = release["files"]
        assert isinstance(files, list)
        release["files"] = [entry for entry in files if entry["component"] != "drafter"]
        del release["drafter"]

    edit(bare / "release.json", forget)
    assert "CTR051" in roots(judged(bare))
    assert "pass" == judged(bare, plain=True).verdict


def test_second_runtime_may_be_left_out(bare: Path) -> None:
    """Files of a Core ML runtime that are not here are another download; one of them makes the others required."""
    entries = [{"path": f"coreml/{n}.json", "component": "coreml", "bytes": 2, "sha256": "ab" * 32} for n in "ab"]

    def add(release: dict[str, object]) -> None:
        assert isinstance(release["files"], list)
        assert isinstance(release["runtimes"], dict)
        release["files"] += entries
        release["runtimes"]["coreml"] = {"path": "coreml", "contexts": [1024]}

    edit(bare / "release.json", add)
    assert "pass" == judged(bare).verdict
    (bare / "coreml").mkdir()
    (bare / "coreml/a.json").write_text("{}")
    assert {"CTR045", "CTR047"} <= set(roots(judged(bare)))


def test_links_of_a_cache_are_followed_when_allowed(bundle: Path, tmp_path: Path) -> None:
    """A hub cache's snapshot of links to blobs passes with --allow-links and is refused without."""
    snapshot = tmp_path / "snapshot"
    for path in sorted(p for p in bundle.rglob("*") if p.is_file()):
        link = snapshot / path.relative_to(bundle)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    assert "pass" == judged(snapshot, allow_links=True).verdict, explain_all(judged(snapshot, allow_links=True))
    assert {"CTR054", "PATH002"} <= set(roots(judged(snapshot)))


def test_folder_without_release_holds_nothing_to_verify(tmp_path: Path) -> None:
    """A folder without release.json is no bundle, a path that does not exist is a usage error."""
    with pytest.raises(NothingToVerifyError, match="no release"):
        judged(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        judged(tmp_path / "absent")
