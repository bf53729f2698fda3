"""``forgepack attest``, and ``forgepack verify`` with what a gate's owner accepts, at the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from forgepack.canonical import dump_canonical
from forgepack.cli.main import run
from forgepack.schema_check import schema_faults
from tests.cli.test_verify import as_nobody, public_copy, snapshot
from tests.verify.attested import make_sibling, replay_report
from tests.verify.factory import tiny_profile
from tests.verify.sabotage import put, remove, write


@pytest.fixture
def second(pair: Path) -> Path:
    """Return a copy of the good pair with a second target and evidence about it."""
    make_sibling(pair)
    report = replay_report(pair / "drafter", pair / "sibling", tiny_profile())
    (pair / "evidence.json").write_bytes(dump_canonical(report))
    return pair


def attest(root: Path, *more: str, depth: str = "hash") -> int:
    named = ["--target", str(root / "sibling"), "--evidence", str(root / "evidence.json")]
    return run(["attest", str(root / "drafter"), *named, *_profile(root), "--depth", depth, *more])


def verify(root: Path, *more: str, target: str = "target", depth: str = "header") -> int:
    return run(
        ["verify", str(root / "drafter"), "--target", str(root / target), *_profile(root), "--depth", depth, *more]
    )


def _profile(root: Path) -> Sequence[str]:
    return "--profile", str(root / "profile.json")


def test_attested_is_what_verify_passes(second: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The attestation lies beside the package, which stays as it is; verify passes the pair with it alone."""
    before = snapshot(second / "drafter")
    assert 1 == verify(second, target="sibling")
    assert "not attested for this target" in capsys.readouterr().out
    assert 0 == attest(second)
    out = second / "drafter.tiny_sibling.attestation.json"
    text = capsys.readouterr().out
    assert str(out) in text
    assert "workload tiny, 1 sequences, 2 blocks: 1.500 accepted drafts per block" in text
    assert before == snapshot(second / "drafter")
    given = ["--attestation", str(out), "--evidence", str(second / "evidence.json")]
    assert 0 == verify(second, *given, target="sibling", depth="lineage")
    assert "attestation: " in capsys.readouterr().out
    assert 0 == run(["inspect", str(out)])
    assert "an attestation of a drafter package" in capsys.readouterr().out


def test_json_tells_all(second: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints the attestation and where it went; a refusal prints the verification."""
    out = second / "x.json"
    assert 0 == attest(second, "--out", str(out), "--json")
    printed = json.loads(capsys.readouterr().out)
    assert (True, json.loads(out.read_bytes())) == (printed["attested"], printed["attestation"])
    put("evidence.json", "workload", value="")(second)
    assert 1 == attest(second, "--out", str(second / "y.json"), "--json")
    refused = json.loads(capsys.readouterr().out)
    assert (False, "fail") == (refused["attested"], refused["verify"]["verdict"])
    assert not (second / "y.json").exists()


def test_outputs_are_guarded(second: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Never inside what is attested, never over a file without --force; --dry-run writes nothing."""
    for folder in ("drafter", "sibling", "sibling/coreai"):
        assert 2 == attest(second, "--out", str(second / folder / "x.json"))
    assert 2 == attest(second, "--out", str(second / "nowhere/x.json"))
    out = second / "x.json"
    assert 0 == attest(second, "--out", str(out), "--dry-run")
    assert "nothing was written" in capsys.readouterr().out
    assert not out.exists()
    out.write_text("kept")
    assert 2 == attest(second, "--out", str(out))
    assert "kept" == out.read_text()
    assert 0 == attest(second, "--out", str(out), "--force")
    assert [] == [path.name for path in second.iterdir() if path.name.startswith("x.json.")]


def test_what_is_missing_is_a_usage_error(second: Path) -> None:
    """A package, target, report or attestation that is not there; evidence is required."""
    named = ["--target", str(second / "sibling"), *_profile(second)]
    assert 2 == run(["attest", str(second / "drafter"), *named])
    assert 2 == run(["attest", str(second / "drafter"), *named, "--evidence", str(second / "none.json")])
    assert 2 == run(["attest", str(second / "none"), *named, "--evidence", str(second / "evidence.json")])
    assert 2 == verify(second, "--attestation", str(second / "none.json"), target="sibling")
    assert 2 == verify(second, "--evidence", str(second / "none.json"))


def test_an_attestation_is_of_a_pair(second: Path) -> None:
    """A release holds its own target: --attestation fits DRAFTER alone."""
    write("a.json", b"{}")(second)
    assert 2 == run(["verify", "--bundle", str(second), "--attestation", str(second / "a.json")])


def test_a_folder_that_can_not_be_written_is_exit_5(second: Path) -> None:
    """The old state stays."""
    with public_copy(second) as root:
        with as_nobody():
            assert 5 == attest(root, "--out", str(root / "x.json"))
        assert not (root / "x.json").exists()


def finding_of(capsys: pytest.CaptureFixture[str], root: Path, ident: str, *more: str) -> dict[str, Any]:
    capsys.readouterr()
    verify(root, "--format", "json", *more)
    report = json.loads(capsys.readouterr().out)
    assert () == schema_faults(report, "report")
    (check,) = [check for check in report["checks"] if check["id"] == ident]
    finding: dict[str, Any] = check["findings"][0]
    return finding


def renamed(root: Path) -> None:
    (folder,) = (root / "target/export").iterdir()
    folder.rename(root / "target/export/x")


def waivers(root: Path, finding: dict[str, Any], *, expires: str = "9999-12-31") -> Path:
    path = root / "forgepack-waivers.toml"
    keys = {"rule": "CTR005", "subject": finding["where"], "digest": finding["digest"], "expires": expires}
    lines = [f'{key} = "{value}"' for key, value in {**keys, "reason": "renamed", "owner": "me"}.items()]
    path.write_text("\n".join(["[[waiver]]", *lines, ""]))
    return path


def test_waivers_baseline_and_exit_zero(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each makes a waivable refusal end with 0, in its own way, and none of them hides it."""
    renamed(pair)
    assert 1 == verify(pair, "--report", f"json={pair / 'old.json'}")
    assert "digest:   " in capsys.readouterr().out
    finding = finding_of(capsys, pair, "CTR005")
    assert 0 == verify(pair, "--waivers", str(waivers(pair, finding)))
    assert "waived until 9999-12-31 by me: renamed" in capsys.readouterr().out
    assert 1 == verify(pair, "--waivers", str(waivers(pair, finding, expires="2001-01-01")))
    assert "CTR070" in capsys.readouterr().out
    assert 0 == verify(pair, "--baseline", str(pair / "old.json"))
    assert "known from the baseline" in capsys.readouterr().out
    assert 0 == verify(pair, "--exit-zero")
    assert "fail: " in capsys.readouterr().out
    assert 2 == verify(pair, "--waivers", str(pair / "profile.json"))
    assert 2 == verify(pair, "--baseline", str(pair / "profile.json"))
    assert 2 == verify(pair, "--select", "HAED")
    remove("drafter/config.json")(pair)
    accepting = ["--waivers", str(waivers(pair, finding)), "--baseline", str(pair / "old.json"), "--exit-zero"]
    assert 1 == verify(pair, *accepting, "--ignore", "ALL")


def test_settings_come_from_the_configuration(
    pair: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """[verify] of forgepack.toml sets what strengthens, paths beside it; what accepts findings is an error there."""
    renamed(pair)
    waivers(pair, finding_of(capsys, pair, "CTR005"))
    folder = pair / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    config = folder / "forgepack.toml"
    args = ["verify", str(pair / "drafter"), "--target", str(pair / "target"), *_profile(pair), "--depth", "header"]
    for text in ('waivers = "../forgepack-waivers.toml"', 'ignore = ["LIC006"]', "exit-zero = true"):
        config.write_text(f"[verify]\n{text}\n")
        assert 2 == run(args)
        assert f"forgepack.toml: verify.{text.split()[0]}" in capsys.readouterr().err
        assert 1 == run(["--isolated", *args])
    write("deny.toml", f'[[deny]]\nsha256 = "{"0" * 64}"\nreason = "r"\n'.encode())(pair)
    config.write_text('[verify]\ndeny = ["../deny.toml"]\n')
    capsys.readouterr()
    assert 1 == run(args)
    assert "option deny = ../deny.toml (from file forgepack.toml: verify.deny)" in capsys.readouterr().out
    config.write_text("[verify]\ndeny = [1]\n")
    assert 2 == run(args)


def test_strict_lets_warnings_refuse(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning passes without it, refuses with it, and can be waived or ignored then."""
    write("drafter/.DS_Store", b"x")(pair)
    assert 0 == verify(pair)
    assert 1 == verify(pair, "--strict")
    assert 0 == verify(pair, "--strict", "--ignore", "PATH006")
    assert "1 rule not selected" in capsys.readouterr().out


def test_a_deny_list_is_an_input_of_the_report(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed by its path, like everything that judged."""
    deny = tmp_path / "deny.json"
    deny.write_text(json.dumps({"deny": [{"sha256": "0" * 64, "reason": "r"}]}))
    assert 0 == verify(base, "--deny", str(deny), "--format", "json")
    assert "deny" in json.loads(capsys.readouterr().out)["inputs"]
