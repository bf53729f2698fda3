"""Rules that seldom stand first, because another one names the cause: each fails by itself, too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from forgepack.coreai_backend.asset_writer import AssetMetadata
from forgepack.coreai_backend.target_assets import author_chunk_standin
from forgepack.errors import CorruptError
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.reading import Input
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from tests.verify.factory import tiny_profile
from tests.verify.running import by_name, check_of, explain_all, told, verified
from tests.verify.sabotage import ASSET, CONFIG, HEAD, MANIFEST, SIDECAR, Case, bytes_of, edit, header, put, tensor

CHUNK = "target/coreai/chunk_L00-03.aimodel"
HEAD_PACKAGE = "target/coreai/head_T8.aimodel"
RECORD = "drafter/DFLASH2_SOURCE.json"
REPORT = "quant/report.json"
BOUND = "forgepack"


def _chunk_with_more_taps(root: Path) -> None:
    shutil.rmtree(root / CHUNK)
    author_chunk_standin(
        root / CHUNK,
        hidden=tiny_profile().geometry.hidden,
        entries={"v8_1k": 8, "p64_1k": 64},
        outputs=["y", "tap1", "tap2"],
        metadata=AssetMetadata(author="tests", licence="Apache-2.0", description="x"),
    )


def _chunk_for_a_head(root: Path) -> None:
    shutil.rmtree(root / HEAD_PACKAGE)
    shutil.copytree(root / CHUNK, root / HEAD_PACKAGE)


def _spaced(data: bytes) -> bytes:
    """Write a JSON file with other spaces: the same values, other bytes."""
    return json.dumps(json.loads(data)).encode()


def _of_the_record(raw: dict[str, Any]) -> None:
    raw["checkpoint"]["files"]["NOTICE"]["sha256"] = "0" * 64


CASES = [
    Case(name="another layer's output", change=_chunk_with_more_taps, depth="lineage", roots=("TAP013",)),
    Case(name="a chunk in place of the head", change=_chunk_for_a_head, depth="lineage", roots=("HEAD002",)),
    Case(
        name="header of the head",
        change=header(HEAD, lambda h: h.update({"__metadata__": {"format": "x"}})),
        roots=("HEAD007",),
    ),
    Case(
        name="one tensor of the head",
        change=tensor(HEAD, "lm_head.scale", lambda v: v.__setitem__(17, v[17] * 2)),
        depth="lineage",
        roots=("HEAD010",),
        says=("lm_head.scale",),
    ),
    Case(
        name="counts of narrowed values",
        change=put(SIDECAR, BOUND, "package", "narrowed", value={"fc.scale": {"changed": 1, "zeroed": 0}}),
        depth="lineage",
        sources=True,
        roots=("NUM010",),
    ),
    Case(
        name="an entry point that no package has",
        change=edit(MANIFEST, lambda raw: raw["chunks"][0]["entries"].append("v8_2k")),
        depth="lineage",
        roots=("PKG020",),
        says=("v8_2k",),
    ),
    Case(name="config in other bytes", change=bytes_of(CONFIG, _spaced), sources=True, roots=("SRC006", "SRC017")),
    Case(
        name="quantized from another checkpoint",
        change=put(REPORT, "inputs", "checkpoint", "model_sha256", value="ab" * 32),
        sources=True,
        roots=("SRC013",),
    ),
    Case(
        name="calibrated on another target",
        change=put(REPORT, "inputs", "target", "head_sha256", value="ab" * 32),
        depth="hash",
        sources=True,
        roots=("SRC014",),
    ),
    Case(
        name="rounded to nearest by the sidecar",
        change=put(SIDECAR, BOUND, "quantization", "method", value="rtn"),
        roots=("SRC020",),
    ),
    Case(
        name="another damping by the sidecar",
        change=put(SIDECAR, BOUND, "quantization", "recipe", "gptq", "damping", value=0.05),
        roots=("SRC020",),
    ),
    Case(name="a file of the record", change=edit(RECORD, _of_the_record), depth="hash", roots=("SRC022",)),
]


@by_name(CASES)
def test_each_fails_by_itself(pair: Path, case: Case) -> None:
    """The rule fails on its own fault, whichever rule is told as the cause."""
    case.change(pair)
    report = verified(pair, case.depth, sources=case.sources)
    for ident in case.roots:
        assert "fail" == check_of(report, ident).status, explain_all(report)
    text = "\n".join(told(report, ident) for ident in case.roots)
    assert all(words in text for words in case.says)


def test_fixed_constants(pair: Path) -> None:
    """WGT014: a zero that is none, in a program whose records follow it, is refused by the emitter's table."""
    from tests.verify.test_lineage import _edited

    _edited("zeros.row")(pair)
    assert "fail" == check_of(verified(pair, "lineage", sources=True), "WGT014").status


def test_traces_that_are_none(pair: Path, tmp_path: Path) -> None:
    """SRC023: traces that can't be parsed are a finding at depth run."""
    traces = tmp_path / "traces.npz"
    traces.write_bytes(b"PK\x03\x04" + bytes(90))
    report = verified(pair, "run", sources=True, named={"traces": traces})
    assert "fail" == check_of(report, "SRC023").status


def test_an_error_that_no_rule_owns(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FMT099: an error of a reader that no rule reports is still a finding, never lost."""
    judged = OpenPair(find_sources(pair / "drafter", pair / "target"), tiny_profile(), Depth.HEADER)

    def fail() -> Any:
        raise CorruptError("something new", where=str(pair / ASSET), code="never-heard-of")

    monkeypatch.setattr(judged, "config", Input("config", fail))
    report = verify(judged)
    found = check_of(report, "FMT099")
    assert ("fail", "fail") == (report.verdict, found.status)
    assert "something new" in str(found.findings)
