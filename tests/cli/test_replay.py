"""The command replay: outcome, streams, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.cli.main import run
from forgepack.schema_check import schema_faults
from tests.cli.quantized import build_quantized
from tests.synthetic import make_head, write_tensors
from tests.synthetic_files import EXPORT


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a synthetic pair with a GPTQ and an RTN quantization of it."""
    return build_quantized(tmp_path_factory.mktemp("pair"))


def replay(pair: Path, *paths: Path, more: tuple[str, ...] = ()) -> int:
    named = ["--traces", str(pair / "bound.npz"), "--target", str(pair / "target")]
    return run(["replay", *map(str, paths), *named, "--profile", str(pair / "profile.json"), *more])


def replayed(pair: Path, capfd: pytest.CaptureFixture[str], *paths: Path, more: tuple[str, ...] = ()) -> Any:
    capfd.readouterr()
    assert replay(pair, *paths, more=("--json", *more)) == 0
    return json.loads(capfd.readouterr().out)


def test_replay_compares_with_the_first(pair: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The checkpoint reproduces the recording; quantized drafters mostly agree with it; the report has its schema."""
    found = replayed(pair, capfd, pair / "checkpoint", pair / "gptq", pair / "rtn", more=("--workload", "w"))
    assert () == schema_faults(found, "replay")
    first, gptq, rtn = found["drafters"]
    assert ("reference", True, "checkpoint") == (first["role"], first["as_recorded"], first["kind"])
    assert "agreement" not in first
    assert ("compared", "quant", 0.7) == (gptq["role"], gptq["kind"], gptq["mask_scale"])
    assert gptq["sha256"] != rtn["sha256"]
    assert 0 < rtn["agreement"]["mean"] < 1
    assert first["acceptance"]["mean"] > gptq["acceptance"]["mean"] > 0
    assert ("w", "matches", 12) == (found["workload"], found["traces"]["identity"], found["ring_rows"])


def test_numbers_of_a_report_fit_each_other(pair: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Histogram, shares, positions and sequences count the same blocks; differences are those of the means."""
    found = replayed(pair, capfd, pair / "checkpoint", pair / "rtn")
    for one in found["drafters"]:
        accepted, rows = one["acceptance"], one["per_sequence"]
        blocks = accepted["blocks"]
        assert blocks == sum(accepted["histogram"]) == sum(row["blocks"] for row in rows)
        assert blocks == sum(b["blocks"] for b in one["by_position"]["accepted"])
        assert accepted["mean"] == pytest.approx(sum(accepted["at_least"]))
        assert accepted["mean"] == pytest.approx(sum(row["accepted"] for row in rows) / blocks)
        assert all((b["from"] >= 12) == (b["ring"] == "beyond") for b in one["by_position"]["accepted"])
    first, other = found["drafters"]
    assert other["difference"]["mean"] == pytest.approx(other["acceptance"]["mean"] - first["acceptance"]["mean"])
    low, high = other["difference"]["interval"]
    assert low <= other["difference"]["mean"] <= high
    assert first["acceptance"]["blocks"] == other["agreement"]["blocks"]
    assert other["agreement"]["mean"] == other["agreement"]["at_least"][-1]
    equal = sum(row["equal_blocks"] for row in other["per_sequence"])
    assert other["agreement"]["mean"] == pytest.approx(equal / other["agreement"]["blocks"])


def test_against_names_the_reference(pair: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--against puts the reference first, whatever its kind; a drafter against itself agrees wholly."""
    found = replayed(pair, capfd, pair / "rtn", more=("--against", str(pair / "checkpoint")))
    assert ["checkpoint", "quant"] == [one["kind"] for one in found["drafters"]]
    alone = replayed(pair, capfd, pair / "checkpoint", more=("--against", str(pair / "checkpoint")))
    other = alone["drafters"][1]
    assert (1.0, [1.0, 1.0]) == (other["agreement"]["mean"], other["agreement"]["interval"])
    assert {"mean": 0.0, "standard_error": 0.0, "interval": [0.0, 0.0]} == other["difference"]


def test_the_same_inputs_give_the_same_bytes(pair: Path, tmp_path: Path) -> None:
    """Report and picture do not depend on the run or on the number of threads."""
    for threads in ("1", "3"):
        outs = [f"{tmp_path}/{threads}.json", f"{tmp_path}/{threads}.svg"]
        more = ("--report", outs[0], "--plot", outs[1], "--threads", threads, "--workload", "w")
        assert replay(pair, pair / "checkpoint", pair / "gptq", more=more) == 0
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "3.json").read_bytes()
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "3.svg").read_bytes()


def test_replay_as_text(pair: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without --json a table names each drafter by a letter; -v adds every sequence."""
    assert replay(pair, pair / "checkpoint", pair / "rtn", more=("-v",)) == 0
    out = capfd.readouterr().out
    assert "an unnamed workload: 3 sequences" in out
    assert f"A  checkpoint {pair}/checkpoint" in out
    assert "against A: " in out
    assert "by sequence" in out


def test_outputs_are_refused_before_the_work(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An output that exists needs --force; a missing parent and a folder are usage errors."""
    taken = tmp_path / "taken.svg"
    taken.write_text("mine")
    assert replay(pair, pair / "checkpoint", more=("--plot", str(taken))) == 2
    assert "--force" in capfd.readouterr().err
    assert "mine" == taken.read_text()
    assert replay(pair, pair / "checkpoint", more=("--plot", str(taken), "--force", "-q")) == 0
    assert taken.read_bytes().startswith(b"<svg")
    assert replay(pair, pair / "checkpoint", more=("--report", str(tmp_path / "no" / "r.json"))) == 2
    assert replay(pair, pair / "checkpoint", more=("--report", str(tmp_path), "--force")) == 2
    assert replay(pair, pair / "checkpoint", more=("--workload", " ")) == 2


def test_another_head_is_measured_and_said(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A stale head is replayed like any other, with a note, and accepts less."""
    export = tmp_path / EXPORT
    export.mkdir()
    write_tensors(export / "lm_head.safetensors", make_head(seed=9))
    good = replayed(pair, capfd, pair / "checkpoint")
    assert replay(pair, pair / "checkpoint", more=("--json", "--target-export", str(export))) == 0
    out, err = capfd.readouterr()
    stale = json.loads(out)
    assert "another head" in err
    assert "differs" == stale["traces"]["identity"]
    assert good["target"]["head_sha256"] != stale["target"]["head_sha256"]
    assert good["target"]["sha256"] != stale["target"]["sha256"]
    assert stale["drafters"][0]["acceptance"]["mean"] < good["drafters"][0]["acceptance"]["mean"]
    assert not stale["drafters"][0]["as_recorded"]


def test_unbound_traces_say_so(pair: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Traces without identity are measured, and the report says that they tell nothing of themselves."""
    command = ["replay", str(pair / "checkpoint"), "--traces", str(pair / "unbound.npz"), "--json"]
    named = ["--target", str(pair / "target"), "--profile", str(pair / "profile.json")]
    capfd.readouterr()
    assert run([*command, *named]) == 0
    assert "absent" == json.loads(capfd.readouterr().out)["traces"]["identity"]


def test_another_mask_scale_is_recorded(pair: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A scale that is not the drafter's own is told as such, its own is not."""
    other = replayed(pair, capfd, pair / "checkpoint", more=("--mask-scale", "0.4"))["drafters"][0]
    assert (0.4, False) == (other["mask_scale"], other["deployed_mask_scale"])
    same = replayed(pair, capfd, pair / "checkpoint", more=("--mask-scale", "0.7"))["drafters"][0]
    assert (0.7, True) == (same["mask_scale"], same["deployed_mask_scale"])


def edit_report(folder: Path, **checkpoint: Any) -> None:
    raw = json.loads((folder / "report.json").read_text())
    raw["inputs"]["checkpoint"] |= checkpoint
    (folder / "report.json").write_text(json.dumps(raw))


def test_replay_refuses(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A QUANT alone needs its checkpoint (2), and that very checkpoint (4); an empty folder holds no drafter (4)."""
    import shutil

    assert replay(pair, pair / "gptq") == 2
    assert "--checkpoint" in capfd.readouterr().err
    assert replay(pair, pair / "gptq", more=("--checkpoint", str(pair / "checkpoint"))) == 0
    shutil.copytree(pair / "gptq", tmp_path / "q")
    edit_report(tmp_path / "q", model_sha256="0" * 64)
    assert replay(pair, pair / "checkpoint", tmp_path / "q") == 4
    assert "another checkpoint" in capfd.readouterr().err
    (tmp_path / "empty").mkdir()
    assert replay(pair, tmp_path / "empty") == 4
    assert replay(pair, tmp_path / "none") == 2
    (tmp_path / "package" / "x.aimodel").mkdir(parents=True)
    assert replay(pair, tmp_path / "package") == 4
    assert replay(pair, tmp_path / "package" / "x.aimodel") == 2


def test_an_edited_checkpoint_is_not_measured(pair: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every byte is hashed: what a report binds is what was measured."""
    import shutil

    shutil.copytree(pair / "checkpoint", tmp_path / "c")
    data = bytearray((tmp_path / "c/model.safetensors").read_bytes())
    data[-3] ^= 1
    (tmp_path / "c/model.safetensors").write_bytes(data)
    assert replay(pair, tmp_path / "c") == 4
    assert "lock" in capfd.readouterr().err


def test_a_head_of_another_shape_is_refused(pair: Path, tmp_path: Path) -> None:
    """A head whose rows are not the vocabulary's ends in exit code 4."""
    export = tmp_path / EXPORT
    export.mkdir()
    specs = {"lm_head.lut": ("F16", (16, 1)), "lm_head.idx": ("U8", (47, 32)), "lm_head.scale": ("F16", (47,))}
    with SafetensorsWriter(export / "lm_head.safetensors", specs, {}) as writer:
        for name in specs:
            writer.view(name)[...] = 0
    assert replay(pair, pair / "checkpoint", more=("--target-export", str(export))) == 4
