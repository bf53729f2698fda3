"""``forgepack emit`` as a user meets it: streams, exit codes, dry run, date."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from forgepack.canonical import dump_canonical
from forgepack.cli.main import run
from tests.emit.conftest import Emitted
from tests.emit.inputs import profile_json
from tests.emit.synthetic import ODD
from tests.emit.test_package import tree


@pytest.fixture
def arguments(odd: Emitted, tmp_path: Path) -> list[str]:
    """Return a command line that works, over the session's pair."""
    profile = tmp_path / "profile.json"
    profile.write_bytes(dump_canonical(profile_json(ODD)))
    pair = odd.pair
    return [
        "emit",
        str(pair.quant),
        f"--checkpoint={pair.checkpoint}",
        f"--target={pair.target}",
        f"--out={tmp_path / 'drafter'}",
        f"--profile={profile}",
    ]


def test_a_package_is_written_and_named(
    odd: Emitted, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0, the asset and its digest on stdout, one plain line a phase on stderr."""
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert odd.result.program_sha256 in out
    assert str(tmp_path / "drafter" / "dflash2_lut4_gptq.aimodel") in out
    assert err.splitlines() == [
        "check inputs ...",
        "author the program ...",
        "compute constants ...",
        "write files ...",
    ]
    assert tree(odd.result.root) == tree(tmp_path / "drafter")


def test_json_is_alone_on_stdout(
    odd: Emitted, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json stdout is one object; -q silences stderr."""
    assert run(["-q", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "out": str(tmp_path / "drafter"),
        "asset": str(tmp_path / "drafter" / "dflash2_lut4_gptq.aimodel"),
        "bytes": odd.result.asset_bytes,
        "mlirb_sha256": odd.result.program_sha256,
        "sidecar": str(tmp_path / "drafter" / "dflash2_lut4_gptq.json"),
        "narrowed": {},
    }
    assert err == ""


def test_dry_run_judges_and_writes_nothing(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan lists files, bytes and disk; nothing appears on disk."""
    before = sorted(tmp_path.rglob("*"))
    assert run([*arguments, "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["files"]) == 9
    assert plan["free_bytes"] > plan["disk_bytes"] > plan["payload_bytes"] > 0
    assert run([*arguments, "--dry-run"]) == 0
    assert "main.mlirb" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


def test_source_date_epoch_dates_the_asset(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The date comes from SOURCE_DATE_EPOCH where it is set; nonsense in it is a usage error."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert run(arguments) == 0
    metadata = json.loads((tmp_path / "drafter" / "dflash2_lut4_gptq.aimodel" / "metadata.json").read_text())
    assert metadata["creationDate"] == "20231114T221320Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert run([*arguments, "--force"]) == 2


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"1": "no-such-quant"}, 2, "no such QUANT folder"),
        ({"2": "--checkpoint=no-such-checkpoint"}, 2, "no such checkpoint folder"),
        ({"3": "--target=no-such-target"}, 2, "no such folder"),
        ({"3": "--target-model=."}, 2, "the target is not named"),
        ({"4": "--out=no/such/parent"}, 2, "parent folder"),
        ({"5": "--profile=no-such-profile"}, 2, "no such profile"),
        ({"5": "--profile=qwen3.8-27b-dflash2"}, 4, "it is of another profile: --profile synthetic"),
        ({"4": "--out=/proc/drafter"}, 5, "could not be written"),
    ],
)
def test_wrong_arguments_have_their_exit_codes(
    arguments: list[str], change: dict[str, str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Usage is 2, foreign inputs 4, an output that can't be written 5; each says what to do."""
    for place, text in change.items():
        arguments[int(place)] = text
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err


def test_a_foreign_target_is_refused_with_both_sides(
    odd: Emitted, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A re-ordered tokenizer of equal size is refused: expected and found digests, and where."""
    target = tmp_path / "target"
    shutil.copytree(odd.pair.target, target)
    tokenizer = target / "model" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"t1": 1, "t2": 2', '"t1": 2, "t2": 1'))
    arguments[3] = f"--target={target}"
    assert run(arguments) == 4
    err = capsys.readouterr().err
    assert "another tokenizer" in err
    assert "expected:" in err
    assert "found:" in err
    assert not (tmp_path / "drafter").exists()
