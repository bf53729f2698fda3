"""Proof by mutation, a sample: every field of every JSON file counts, and nothing it may hold breaks the verifier."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from forgepack.canonical import dump_canonical
from tests.verify.mutants import ANYTHING, Mutant, leaves, mutants, put
from tests.verify.running import explain_all, verified
from tests.verify.sabotage import ASSET, CONFIG, MANIFEST, SIDECAR, TARGET_CONFIG

METADATA = f"{ASSET}/metadata.json"
FILES = {
    SIDECAR: 60,
    METADATA: 15,
    MANIFEST: 15,
    CONFIG: 15,
    TARGET_CONFIG: 6,
    "drafter/DFLASH2_SOURCE.json": 10,
    "checkpoint/checkpoint.lock.json": 10,
    "checkpoint/config.json": 10,
    "quant/report.json": 15,
}
LEGAL = {(METADATA, "creationDate"): "saving an asset stamps the date; its content is bound without it"}


def legal(file: str, mutant: Mutant) -> bool:
    """Whether a mutant is on the short list; constants and the program's structure are judged at depth lineage."""
    return (file, mutant.path[0]) in LEGAL or bool({"constants", "trace_sha256"} & set(mutant.path))


@pytest.mark.parametrize("file", FILES)
def test_every_field_counts(pair: Path, file: str) -> None:
    """A changed or missing leaf of any file is refused at depth hash."""
    path = pair / file
    raw = json.loads(path.read_bytes())
    choice = [one for one in mutants(raw) if not legal(file, one)]
    random.Random(file).shuffle(choice)
    for mutant in choice[: FILES[file]]:
        path.write_bytes(dump_canonical(mutant.value))
        report = verified(pair, "hash", sources=True)
        assert ("fail", 1) == (report.verdict, report.exit_code), mutant.name


@pytest.mark.parametrize("file", FILES)
def test_no_value_breaks_the_verifier(pair: Path, file: str) -> None:
    """Any JSON value at any leaf ends in a report."""
    path = pair / file
    raw = json.loads(path.read_bytes())
    places = [place for place, _ in leaves(raw)]
    choose = random.Random(f"any {file}")
    for _ in range(12):
        place: Any = choose.choice(places)
        value = choose.choice(ANYTHING)
        depth = choose.randrange(1, len(place) + 1)  # inner nodes are replaced, too
        path.write_text(json.dumps(put(raw, place[:depth], value)))
        report = verified(pair, "hash", sources=True)
        assert report.exit_code in (0, 1), explain_all(report)


def test_constants_are_recorded_leaf_by_leaf(pair: Path) -> None:
    """At depth lineage a changed record of any constant is refused by the rule that compares them."""
    path = pair / SIDECAR
    raw = json.loads(path.read_bytes())
    records = raw["forgepack"]["package"]["constants"]
    for role, key, value in (
        ("norm", "sha256", "0" * 64),
        ("fc.idx", "shape", [1]),
        ("scalar.one", "formula", "2"),
        ("mask_row", "dtype", "F32"),
    ):
        records[role][key] = value
    del records["zeros.row"]
    records["new"] = records["norm"]
    path.write_bytes(dump_canonical(raw))
    report = verified(pair, "lineage")
    findings = next(check.findings for check in report.checks if check.id == "WGT011")
    named = {finding.subject.removeprefix("constant ") for finding in findings}
    assert {"norm", "fc.idx", "scalar.one", "mask_row", "zeros.row", "new"} == named
