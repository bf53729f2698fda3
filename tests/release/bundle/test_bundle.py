"""Staging a release: what goes in, what stays behind, what is refused, and that nothing half-done is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from forgepack.errors import CorruptError, ForgepackError, IdentityError, MissingError, OutputError, UsageError
from forgepack.release.bundle.inventory import BundleInputs, take_inventory
from forgepack.release.bundle.make import BundleResult, Progress, make_bundle
from forgepack.verify.findings.report import Depth
from tests.hub.bench import tree_of
from tests.release.bench import TINY, bundle_inputs, edit, judged, read_json
from tests.release.bundle.release_check import check_release
from tests.verify.factory import EXPORT, tiny_profile
from tests.verify.running import explain_all


def bundled(inputs: BundleInputs, out: Path, **options: object) -> BundleResult:
    """Bundle under the tiny profile."""
    return make_bundle(inputs, out, profile=tiny_profile(), **options)  # type: ignore[arg-type]


@pytest.fixture
def pair(base: Path, tmp_path: Path) -> Path:
    """Return a copy of the good pair, to be changed."""
    return Path(shutil.copytree(base, tmp_path / "pair"))


def test_two_bundles_of_one_pair_are_equal(base: Path, released: Path, tmp_path: Path) -> None:
    """Folder, time and user do not enter: every byte is the same."""
    again = tmp_path / "elsewhere" / "release of today"
    again.parent.mkdir()
    bundled(bundle_inputs(base), again)
    assert tree_of(released) == tree_of(again)
    assert [] == [p for p in again.parent.iterdir() if p != again]


def test_result_tells_what_was_written(base: Path, tmp_path: Path) -> None:
    """Inventory, bytes and digest of the result are those of the folder; progress counts every byte."""
    seen: list[Progress] = []
    result = bundled(bundle_inputs(base), tmp_path / "out", listener=seen.append)
    release = read_json(tmp_path / "out/release.json")
    assert [entry["path"] for entry in release["files"]] == [file.path for file in result.files]
    assert sum(entry["bytes"] for entry in release["files"]) == result.bytes
    assert ("pass", Depth.HASH) == (result.report.verdict, result.report.depth)
    copies = [progress for progress in seen if progress.step == "copy"]
    assert (copies[-1].total, True) == (copies[-1].done, copies[-1].total > 0)


def test_export_can_stay_behind(base: Path, tmp_path: Path) -> None:
    """Without the export release.json names none, and the bundle passes both checks."""
    bundled(bundle_inputs(base, export=False), tmp_path / "out")
    assert "export_path" not in read_json(tmp_path / "out/release.json")
    assert not (tmp_path / "out/export").exists()
    check_release(tmp_path / "out", TINY)
    assert ["CTR083"] == [check.id for check in judged(tmp_path / "out").failed("note")]


def test_parts_may_lie_anywhere(pair: Path, tmp_path: Path) -> None:
    """Build and export under other names end at their canonical places, the export under manifest.export."""
    (pair / "target/coreai").rename(tmp_path / f"{EXPORT}_kvv8")
    (pair / "target/export" / EXPORT).rename(tmp_path / EXPORT)
    inputs = bundle_inputs(pair)
    target = replace(inputs.target, build=tmp_path / f"{EXPORT}_kvv8", export=tmp_path / EXPORT)
    bundled(replace(inputs, target=target), tmp_path / "out")
    assert "pass" == judged(tmp_path / "out").verdict


def test_shards_and_junk_stay_behind(pair: Path, tmp_path: Path) -> None:
    """Files that model/ may not hold are left and told, files of operating systems are left in silence."""
    (pair / "target/model/model-00001-of-00002.safetensors").write_bytes(b"x")
    (pair / "target/coreai/.DS_Store").write_bytes(b"x")
    result = bundled(bundle_inputs(pair), tmp_path / "out")
    assert ("model/model-00001-of-00002.safetensors",) == result.left_behind
    assert "pass" == judged(tmp_path / "out").verdict
    check_release(tmp_path / "out", TINY)


def test_supplied_documents_replace_written_ones(base: Path, tmp_path: Path) -> None:
    """Each document in the folder is taken as it is, the others are written; other files are not looked at."""
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "README.md").write_text("# My card\n")
    (texts / "notes.txt").write_text("not for release\n")
    bundled(bundle_inputs(base, documents=texts), tmp_path / "out")
    assert "# My card\n" == (tmp_path / "out/README.md").read_text()
    assert (base / "target/LICENSE").read_bytes() == (tmp_path / "out/LICENSE").read_bytes()
    assert not (tmp_path / "out/notes.txt").exists()
    check_release(tmp_path / "out", TINY)


def test_notice_of_the_target_goes_along(pair: Path, tmp_path: Path) -> None:
    """The release's NOTICE names upstream and drafter and ends with the target's own text."""
    (pair / "target/NOTICE").write_text("Made by the people of Tiny.\n")
    bundled(bundle_inputs(pair), tmp_path / "out")
    text = (tmp_path / "out/NOTICE").read_text()
    assert all(part in text for part in ("tests/tiny-target", "ab" * 20, "tests/tiny at"))
    assert text.endswith("Made by the people of Tiny.\n")


def test_blank_document_is_refused(base: Path, tmp_path: Path) -> None:
    """A supplied document without text is no document."""
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "NOTICE").write_text(" \n")
    with pytest.raises(IdentityError, match="CTR042"):
        bundled(bundle_inputs(base, documents=texts), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_target_without_licence_is_refused(pair: Path, tmp_path: Path) -> None:
    """The target's terms can't be written by a tool: the error names --documents."""
    (pair / "target/LICENSE").unlink()
    with pytest.raises(MissingError, match="--documents"):
        bundled(bundle_inputs(pair), tmp_path / "out")


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (f"target/export/{EXPORT}/lm_head.safetensors", "HEAD008"),
        ("target/model/tokenizer.json", "FMT001"),
        ("target/model/embed_tokens_fp16.npy", "WGT017"),
        ("drafter/selector.safetensors", "PKG014"),
        ("drafter/dflash2_lut4_gptq.aimodel/main.mlirb", "PKG012"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(pair: Path, tmp_path: Path, path: str, rule: str) -> None:
    """One changed byte anywhere keeps the release from being published; the error names the rule, exit 4."""
    data = bytearray((pair / path).read_bytes())
    data[-2] ^= 1
    (pair / path).write_bytes(data)
    with pytest.raises(ForgepackError, match=rule) as caught:
        bundled(bundle_inputs(pair), tmp_path / "out")
    assert 4 == caught.value.exit_code
    assert str(tmp_path / ".out.work") not in str(caught.value)
    assert ["pair"] == sorted(p.name for p in tmp_path.iterdir())


def test_links_are_copied_by_content_only_when_allowed(pair: Path, tmp_path: Path) -> None:
    """A bundle holds files: a link is refused, with allow_links its bytes are copied."""
    head = pair / "target/export" / EXPORT / "lm_head.safetensors"
    head.rename(tmp_path / "blob")
    head.symlink_to(tmp_path / "blob")
    with pytest.raises(CorruptError, match="--allow-links"):
        take_inventory(bundle_inputs(pair))
    bundled(bundle_inputs(pair, allow_links=True), tmp_path / "out")
    assert not (tmp_path / "out/export" / EXPORT / "lm_head.safetensors").is_symlink()
    assert "pass" == judged(tmp_path / "out").verdict


def test_special_files_and_unsafe_names_are_refused(pair: Path) -> None:
    """A pipe is never opened, a name that Windows reserves is never released."""
    os.mkfifo(pair / "target/coreai/pipe")
    with pytest.raises(CorruptError, match="regular file"):
        take_inventory(bundle_inputs(pair))
    (pair / "target/coreai/pipe").unlink()
    (pair / "target/coreai/con.json").write_text("{}")
    with pytest.raises(CorruptError, match="reserved"):
        take_inventory(bundle_inputs(pair))


def test_existing_output_is_replaced_only_by_force(base: Path, tmp_path: Path) -> None:
    """A folder that is there stays as it is without --force."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    for force in (False, True):
        with pytest.raises(UsageError, match="mine" if force else "--force"):
            bundled(bundle_inputs(base), out, force=force)
        assert ["mine"] == [p.name for p in out.iterdir()]
    (out / "mine").unlink()
    bundled(bundle_inputs(base), out, force=True)
    assert "pass" == judged(out).verdict


def test_too_small_disk_is_told_before_a_byte_is_copied(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that are missing are told, and nothing is left."""
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(OutputError, match="too little space"):
        bundled(bundle_inputs(base), tmp_path / "out")
    assert [] == list(tmp_path.iterdir())


CHILD = """
import os, resource, signal, sys
from pathlib import Path
from forgepack.errors import OutputError
from forgepack.release.bundle.make import make_bundle
from tests.release.bench import bundle_inputs
from tests.verify.factory import tiny_profile

def die(progress):
    if progress.step == sys.argv[3] and progress.done * 2 >= progress.total:
        os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[3] == "limit":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    make_bundle(bundle_inputs(Path(sys.argv[1])), Path(sys.argv[2]), profile=tiny_profile(), force=True, listener=die)
except OutputError as err:
    sys.exit(err.exit_code)
"""


def in_child(base: Path, out: Path, how: str) -> int:
    """Bundle in a child that is killed at a step, or that may write no file over 2,000 bytes; return its code."""
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", CHILD, str(base), str(out), how]
    return subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=False).returncode


def test_failed_write_leaves_the_old_release(base: Path, released: Path, tmp_path: Path) -> None:
    """A file that can't be written whole ends in exit 5; an older release stays as it was, and nothing else."""
    out = Path(shutil.copytree(released, tmp_path / "out"))
    assert 5 == in_child(base, out, "limit")
    assert tree_of(released) == tree_of(out)
    assert ["out"] == [p.name for p in tmp_path.iterdir()]


@pytest.mark.parametrize("step", ["copy", "verify"])
def test_killed_run_leaves_nothing_that_passes(base: Path, released: Path, tmp_path: Path, step: str) -> None:
    """Killed at any step, there is no new release; the next run removes what was left and succeeds."""
    out = tmp_path / "out"
    assert -9 == in_child(base, out, step)
    assert not out.exists()
    bundled(bundle_inputs(base), out)
    assert tree_of(released) == tree_of(out)
    assert ["out"] == [p.name for p in tmp_path.iterdir()]


def test_other_taps_of_the_config_are_told_by_their_rule(pair: Path, tmp_path: Path) -> None:
    """A config without taps gives a release.json without taps; the refusal names the cause, not the file written."""
    edit(pair / "drafter/config.json", lambda raw: raw["dflash_config"].pop("target_layer_ids") and None)
    with pytest.raises(IdentityError, match="TAP001"):
        bundled(bundle_inputs(pair), tmp_path / "out")


def test_deeper_verification_before_publication(base: Path, tmp_path: Path) -> None:
    """At depth lineage every constant is proven before the release is published."""
    result = bundled(bundle_inputs(base), tmp_path / "out", depth=Depth.LINEAGE)
    assert Depth.LINEAGE == result.report.depth
    assert "pass" == result.report.verdict, explain_all(result.report)
