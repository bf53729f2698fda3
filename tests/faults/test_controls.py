"""What must pass: a gate that cries wolf is switched off."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from forgepack.artifacts.target import read_manifest
from tests.verify.factory import PROFILE, tiny_profile
from tests.verify.running import check_of, explain_all, verified
from tests.verify.sabotage import CONFIG, TARGET_CONFIG, edit, write


def test_padding_rows_pass(base: Path) -> None:
    """44 ids in use of 48 rows, 2 drafter layers for 3 taps, nested text_config, no head of its own: all legal."""
    raw, text = PROFILE["geometry"], json.loads((base / TARGET_CONFIG).read_bytes())["text_config"]
    assert (48, 44) == (text["vocab_size"], PROFILE["target"]["used_tokens"])
    assert raw["layers"] != len(raw["taps"])
    report = verified(base, "hash", sources=True)
    assert "pass" == report.verdict, explain_all(report)


@pytest.mark.parametrize("name", ["r\u00e9sum\u00e9.md", "notes on it.txt", "-dash.md", "it's.md", ".gitkeep"])
def test_documents_of_any_name_pass(pair: Path, name: str) -> None:
    """Documents that were added later, whatever they are called, are outside the contract."""
    write(f"drafter/{name}", b"")(pair)
    report = verified(pair, "hash", strict=True)
    assert "pass" == report.verdict, explain_all(report)


def test_flat_target_config_passes(pair: Path) -> None:
    """A target whose values stand outside text_config is read alike; only its identity is another."""
    edit(TARGET_CONFIG, lambda raw: {**{k: v for k, v in raw.items() if k != "text_config"}, **raw["text_config"]})(
        pair
    )
    report = verified(pair)
    assert {"CTR022", "CTR061"} == {check.id for check in report.failed("error")}


def test_re_saved_asset_passes(pair: Path) -> None:
    """An asset copied by any tool, times and modes lost, and its date changed, is the same package."""
    copy = pair / "copy"
    shutil.copytree(pair / "drafter", copy, copy_function=shutil.copyfile)
    shutil.rmtree(pair / "drafter")
    copy.rename(pair / "drafter")
    metadata = next((pair / "drafter").glob("*.aimodel/metadata.json"))
    raw = json.loads(metadata.read_bytes())
    raw["creationDate"] = "20310203T040506Z"
    metadata.write_text(json.dumps(dict(reversed(raw.items()))))
    report = verified(pair, "hash")
    assert "pass" == report.verdict, explain_all(report)


def test_manifest_written_again_only_warns(pair: Path) -> None:
    """Equal content in other bytes is known by its content."""
    manifest = read_manifest(pair / "target/coreai")
    manifest.path.write_text(json.dumps(manifest.raw))
    report = verified(pair, "hash")
    assert ("pass", ["CTR021"]) == (report.verdict, [check.id for check in report.failed("warning")])


def test_git_checkout_of_the_package_passes(pair: Path) -> None:
    """A package that went through an archive has every byte that counts."""
    archive = pair / "drafter.tar"
    subprocess.run(["tar", "-C", str(pair), "-cf", str(archive), "drafter"], check=True)
    shutil.rmtree(pair / "drafter")
    subprocess.run(["tar", "-C", str(pair), "-xf", str(archive)], check=True)
    assert "pass" == verified(pair, "hash", sources=True).verdict


def test_last_layer_tap_needs_no_more_than_a_note(pair: Path) -> None:
    """A profile that taps the last layer judges the same config as wrong, not itself as impossible."""
    profile = tiny_profile(geometry={**PROFILE["geometry"], "taps": [1, 3, 7]})
    report = verified(pair, profile=profile)
    assert "note" == check_of(report, "TAP012").severity
    assert "fail" == check_of(report, "TAP002").status
    assert CONFIG in "\n".join(f.where.replace("drafter/", "drafter/") for f in check_of(report, "TAP002").findings)
