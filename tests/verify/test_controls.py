"""Controls: what must pass, since a gate that cries wolf is switched off."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from forgepack.resources import data_folder
from forgepack.schema_check import schema_faults
from tests.verify.running import check_of, explain_all, failed, verified
from tests.verify.sabotage import ASSET, CONFIG, TARGET_CONFIG, Change, both, bytes_of, edit, header, put, write

SELECTOR = "drafter/selector.safetensors"


def _padded(data: bytes) -> bytes:
    (length,) = struct.unpack("<Q", data[:8])
    return struct.pack("<Q", length + 64) + data[8 : 8 + length] + b" " * 64 + data[8 + length :]


def _unsorted(raw: dict[str, object]) -> None:
    for name in sorted(raw, reverse=True):
        raw[name] = raw.pop(name)


# On the foreign pair, whose bytes nothing binds: only the form counts.
FORMS: dict[str, Change] = {
    "header padded with spaces": bytes_of(SELECTOR, _padded),
    "header in another order": header(SELECTOR, _unsorted),
    "metadata in the header": header(SELECTOR, lambda raw: raw.update(__metadata__={"format": "pt"})),
    "flat target config": edit(TARGET_CONFIG, lambda raw: {**raw["text_config"], "model_type": "tiny"}),
    "outer and nested values agree": edit(TARGET_CONFIG, lambda raw: raw.update(vocab_size=48, hidden_size=32)),
    "rope base as a whole number": put(CONFIG, "rope_parameters", "rope_theta", value=10000),
    "absent keys that have defaults": edit(
        CONFIG, lambda raw: [raw.pop(k) for k in ("is_causal", "hidden_act")] and None
    ),
    "neutral keys that are stated": edit(CONFIG, lambda raw: raw.update(output_multiplier=1.0)),
    "documents and hidden files": both(
        write("drafter/README.md", b"x"), write("drafter/.gitkeep", b""), write("drafter/übersicht.md", b"x")
    ),
    "date of the asset": put(f"{ASSET}/metadata.json", "creationDate", value="20300101T000000Z"),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_must_pass(foreign: Path, tmp_path: Path, name: str) -> None:
    """Each legal form changes nothing: the foreign pair is still refused for being unattested alone."""
    root = Path(shutil.copytree(foreign, tmp_path / "pair"))
    FORMS[name](root)
    report = verified(root, "hash")
    assert {"CTR001"} == failed(report), explain_all(report)


def test_padded_vocabulary(base: Path) -> None:
    """Ids in use, vocabulary and head rows are three numbers; rows above the ids are padding and pass."""
    report = verified(base, "lineage")
    assert {"pass"} == {check_of(report, ident).status for ident in ("VOC001", "VOC002", "VOC004")}


def test_layers_are_not_taps(base: Path) -> None:
    """Two drafter layers listen to three taps: their numbers have nothing to do with each other."""
    assert "pass" == verified(base).verdict


@pytest.mark.parametrize("depth", ["header", "hash", "lineage"])
def test_each_depth_passes(base: Path, depth: str) -> None:
    """The good pair passes at each depth, with its sources and without."""
    for sources in (False, True):
        report = verified(base, depth, sources=sources, strict=True)
        assert "pass" == report.verdict, explain_all(report)


def test_manifests_follow_their_schema(base: Path) -> None:
    """Manifests of the tests' target and of the miniature are valid under schemas/manifest.schema.json."""
    for path in (base / "target/coreai/manifest.json", data_folder("mini") / "target/coreai/manifest.json"):
        assert () == schema_faults(json.loads(path.read_bytes()), "manifest")
