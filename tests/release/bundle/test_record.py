"""forgepack.json and SHA256SUMS: our own digests beside Forge's inventory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepack.artifacts.release_json import RELEASE_FILE, parse_release
from forgepack.artifacts.release_record import parse_sums, render_sums
from forgepack.canonical import sha256_hex
from forgepack.schema_check import schema_faults
from tests.release.bench import STEM, edit, edit_listed, judged, read_json, relist
from tests.verify.running import check_of, explain_all, roots, told

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("schema_version", "upstream_model", "model_path", "export_path", "runtimes", "drafter", "files")


def test_sums_are_those_of_sha256sum(released: Path) -> None:
    """``sha256sum --check`` passes in the bundle and covers every file but its own."""
    tool = shutil.which("sha256sum")
    if tool is None:
        pytest.skip("no sha256sum on this system")
    run = subprocess.run([tool, "--check", "--strict", "SHA256SUMS"], cwd=released, capture_output=True, check=False)
    assert 0 == run.returncode, run.stdout
    files = {p.relative_to(released).as_posix() for p in released.rglob("*") if p.is_file()}
    assert files - {"SHA256SUMS"} == set(parse_sums((released / "SHA256SUMS").read_bytes(), where=""))


def test_written_files_follow_their_schemas(released: Path) -> None:
    """release.json, forgepack.json and QWEN_SOURCE.json are valid under the schemas that ship with the tool."""
    for name, schema in (
        ("release.json", "release"),
        ("forgepack.json", "release_record"),
        ("QWEN_SOURCE.json", "qwen_source"),
    ):
        assert () == schema_faults(read_json(released / name), schema)


def test_release_json_holds_the_known_keys_alone(released: Path) -> None:
    """No key of our own stands in release.json: its schema is Forge's."""
    raw = read_json(released / "release.json")
    assert set(KEYS) == set(raw)
    allowed = {"path", "component", "bytes", "sha256", "modification_notice"}
    assert all(set(entry) <= allowed for entry in raw["files"])


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda raw: raw["release"].update(sha256="0" * 64), "CTR052"),
        (lambda raw: raw["components"]["drafter"].update(files=1), "CTR052"),
        (lambda raw: raw["target"].update(head_sha256="0" * 64), "CTR052"),
        (lambda raw: raw.update(schema="forgepack.release/2"), "CTR052"),
        (lambda raw: raw.update(extra=1), "CTR052"),
    ],
    ids=["release", "component", "head", "schema", "extra_key"],
)
def test_edited_record_is_refused(bundle: Path, change: Callable[[Any], Any], cause: str) -> None:
    """A record that does not fit the release and its sidecar is refused, and the sums tell it, too."""
    edit(bundle / "forgepack.json", change)
    assert [cause, "CTR053"] == roots(judged(bundle))


def test_inventory_written_again_over_a_changed_file_is_refused(bundle: Path) -> None:
    """A tokenizer setting changed and listed again passes section 7; record, sums and sidecar tell it."""
    edit(bundle / "model/tokenizer_config.json", lambda raw: raw.update(model_max_length=2048))
    relist(bundle, "model/tokenizer_config.json")
    report = judged(bundle)
    assert ["CTR052", "CTR053", "CTR092"] == roots(report), explain_all(report)
    assert "fail" == check_of(report, "TOK004").status


def test_record_of_another_tool_version_passes(bundle: Path) -> None:
    """Which version wrote the record is no matter of the pair."""
    edit(bundle / "forgepack.json", lambda raw: raw["tool"].update(version="9.9"))
    (bundle / "SHA256SUMS").unlink()
    assert "pass" == judged(bundle).verdict


def test_missing_record_and_sums_are_not_evaluated(bare: Path) -> None:
    """Both files are optional: a download by Forge's helper has neither."""
    report = judged(bare)
    assert "pass" == report.verdict
    assert ["not-evaluated"] * 2 == [check_of(report, ident).status for ident in ("CTR052", "CTR053")]


@pytest.mark.parametrize("line", ["x\n", "AB  release.json\n", "\x00", f"{'0' * 64} release.json\n"])
def test_damaged_sums_are_refused(bundle: Path, line: str) -> None:
    """A line of another form is a finding that names it."""
    path = bundle / "SHA256SUMS"
    path.write_text(path.read_text() + line)
    report = judged(bundle)
    assert ["CTR053"] == roots(report), explain_all(report)
    assert "line" in told(report, "CTR053")


def test_private_path_in_the_manifest_is_a_warning(bare: Path) -> None:
    """An export named by an absolute path tells of the machine that built it."""
    edit(bare / "coreai/manifest.json", lambda raw: raw.update(export=f"/Users/someone/{raw['export']}"))
    relist(bare, "coreai/manifest.json")
    report = judged(bare)
    assert "CTR056" in {check.id for check in report.failed("warning")}
    assert "someone" not in told(report, "CTR056")


@given(raw=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), JSON))
def test_any_object_is_read_without_an_exception(raw: dict[str, Any]) -> None:
    """Whatever release.json holds is told as faults; a value that is none of a release is never returned clean."""
    release, faults = parse_release(raw, path=Path(RELEASE_FILE), sha256=sha256_hex(b""))
    assert faults
    assert release is None or 1 == raw["schema_version"]


LETTERS = st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp", "Zs"])
PATHS = st.text(LETTERS, min_size=1)


@given(sums=st.dictionaries(PATHS, st.binary(min_size=32, max_size=32).map(bytes.hex)))
def test_sums_come_back_as_they_were_written(sums: dict[str, str]) -> None:
    """Reading inverts writing."""
    assert sums == parse_sums(render_sums(sums), where="SHA256SUMS")


def test_sidecar_of_the_record_is_the_drafters(released: Path) -> None:
    """forgepack.json names the sidecar by path and digest."""
    path = f"drafter/{STEM}.json"
    record = read_json(released / "forgepack.json")
    assert {"path": path, "sha256": sha256_hex((released / path).read_bytes())} == record["sidecar"]


def test_a_derived_build_is_never_a_release(bundle: Path) -> None:
    """A build that a runtime derived for one machine is refused in a release, however consistent it is."""
    edit_listed(bundle, "coreai/manifest.json", lambda raw: raw.update(derived={"soc": "m5", "from": "/Users/x"}))
    assert "fail" == check_of(judged(bundle, "header"), "CTR088").status
