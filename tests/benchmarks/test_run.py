"""The benchmark itself, on the small release."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.ceilings import QUICK, as_json, best_of, measure_ceilings
from benchmarks.run import Bench, bench_quantize, parse_arguments, walked_rows
from benchmarks.synthetic import Release
from forgepack.artifacts.traces import read_traces


def test_ceilings_are_rates_of_every_kind(tmp_path: Path) -> None:
    """Products, factorizations, hashing and copying on one thread and two, and the disk; nothing is left behind."""
    ceilings = measure_ceilings(tmp_path, QUICK, 2)
    assert {f"{kind}{name}_{n}" for kind in "sd" for name in ("gemm", "potrf", "trtri") for n in (1, 2)} < set(
        ceilings
    )
    others = {"copy_1", "copy_2", "first_touch", "disk_write", "disk_read", "disk_read_cached"}
    assert {"sha256_1", "sha256_2", *others} < set(ceilings)
    assert all(c.wall > 0 and c.cpu > 0 for c in ceilings.values())
    assert [] == list(tmp_path.iterdir())
    json.dumps(as_json(best_of(ceilings, ceilings)))


def test_quantize_is_measured_with_its_phases(small_release: Release) -> None:
    """Every phase that has counted operations was entered, and the phases sum up to no more than the command."""
    bench = Bench(release=small_release, workers=2, depths=(), repeats=1)
    found = bench_quantize(bench)
    assert set(found["operations"]) <= set(found["phases"])
    assert sum(phase["seconds"] for phase in found["phases"].values()) <= found["wall"]
    assert (bench.out / "quant" / "report.json").is_file()


def test_rows_are_those_of_the_schedule(small_release: Release) -> None:
    """Eight rows a walked block, and the committed context rows."""
    rows = walked_rows(small_release)
    traces = read_traces(small_release.traces("calibration"), small_release.scale.profile.geometry)
    assert 8 * traces.blocks == rows.block
    assert sum(s.context_rows for s in traces.sequences) == rows.context


def test_the_command_line_defaults_to_all_steps_but_running_the_package(tmp_path: Path) -> None:
    """A run of the package takes minutes at full size: only on demand."""
    args = parse_arguments([str(tmp_path)])
    assert args.steps == ["startup", "quantize", "emit", "verify"]
    assert args.depths == ["header", "hash", "lineage"]
