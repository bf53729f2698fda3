"""What the binding says of the calibration's sequences, and the features that depth run is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.recorder import simulate
from tests.synthetic import write_traces
from tests.verify.factory import tiny_profile
from tests.verify.running import check_of, told, verified
from tests.verify.sabotage import SIDECAR, put

CALIBRATION = ("forgepack", "quantization", "calibration")


def test_sequences_that_are_not_known_are_noted(pair: Path) -> None:
    """SRC034: a binding that does not say what calibrated is legal, and shown."""
    assert "pass" == check_of(verified(pair), "SRC034").status
    put(SIDECAR, *CALIBRATION, "traces", "fingerprint", value=None)(pair)
    report = verified(pair)
    assert ("fail", "note", "pass") == (
        check_of(report, "SRC034").status,
        check_of(report, "SRC034").severity,
        check_of(report, "SRC035").status,
    )


@pytest.mark.parametrize("key", ["equal", "copied"])
def test_held_out_sequences_that_calibrated_are_refused(pair: Path, key: str) -> None:
    """SRC035: a report that was made where nothing refused them still tells them."""
    put(SIDECAR, *CALIBRATION, "held_out", "overlap", key, value=11)(pair)
    report = verified(pair)
    assert ("fail", "fail") == (check_of(report, "SRC035").status, report.verdict)
    assert f"overlap.{key}" in told(report, "SRC035")


def test_a_fingerprint_that_is_none_is_refused(pair: Path) -> None:
    """SRC035: what can't be read is not known to be apart."""
    put(SIDECAR, *CALIBRATION, "traces", "fingerprint", value={"ngram": 3})(pair)
    assert "fail" == check_of(verified(pair), "SRC035").status


def test_dead_taps_of_given_traces_are_refused(pair: Path, tmp_path: Path) -> None:
    """NUM030: traces of a dead tap are a finding at depth run, by its layer."""
    geometry = tiny_profile().geometry
    one = simulate([5, 6, 7] * 4, list(range(4, 40)), [1, 3, 2, 4], limit=20)
    rows = np.random.default_rng(0).standard_normal((len(one.features), len(geometry.taps), geometry.hidden))
    rows[:, 1] = 0
    traces = write_traces(tmp_path / "traces.npz", [replace(one, features=rows.astype(np.float16))])
    report = verified(pair, "run", sources=True, named={"traces": traces})
    assert "fail" == check_of(report, "NUM030").status
    assert f"tap of layer {geometry.taps[1]}" in told(report, "NUM030")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_a_finding(pair: Path, tmp_path: Path, value: float) -> None:
    """A value that is not finite refuses the pair and is named; nothing crashes."""
    geometry = tiny_profile().geometry
    one = simulate([5, 6, 7] * 4, list(range(4, 40)), [1, 3, 2, 4], limit=20)
    rows = np.random.default_rng(0).standard_normal((len(one.features), len(geometry.taps), geometry.hidden))
    rows[9, 1, 4] = value
    traces = write_traces(tmp_path / "traces.npz", [replace(one, features=rows.astype(np.float16))])
    report = verified(pair, "run", sources=True, named={"traces": traces})
    assert "fail" == report.verdict
    assert "feats_0[9, 1, 4]" in str(report.checks)
