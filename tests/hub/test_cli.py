"""The command line: exit codes, streams, JSON, notes and progress lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forgepack.cli.fetch_progress import LiveProgress
from forgepack.cli.main import run
from forgepack.hub import Progress
from forgepack.profile import load_profile
from tests.hub.bench import COMMIT, DONOR, FILES, OTHER, REPO, Bench, expected_tree, tree_of
from tests.hub.loopback import LoopbackHub


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run of the command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout, parsed."""
        return json.loads(self.out)


class Shell:
    """Runs ``forgepack fetch`` in this process, with a profile file that pins the bench."""

    def __init__(self, bench: Bench, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.bench = bench
        self.capture = capture
        self.profile = folder / "bench.json"
        source = Path(str(__import__("forgepack").__file__)).parent / "profiles" / f"{load_profile().name}.json"
        raw = json.loads(source.read_bytes())
        raw["hub"] |= {"repo": REPO, "commit": COMMIT, "optional_files": ["README.md", "absent.md"]}
        raw["known_bad"] = {DONOR: "the donor's weights"}
        self.profile.write_text(json.dumps(raw))

    def __call__(self, *args: str, main: tuple[str, ...] = ()) -> Result:
        code = run([*main, "fetch", "--profile", str(self.profile), *args])
        out, err = self.capture.readouterr()
        return Result(code=code, out=out, err=err)


@pytest.fixture
def shell(bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return the command, pointed at the loopback hub by HF_ENDPOINT."""
    monkeypatch.setenv("HF_ENDPOINT", bench.hub.url)
    return Shell(bench, tmp_path, capfd)


def test_a_fetch_prints_each_file_and_where_it_lies(shell: Shell) -> None:
    """Data on stdout, one plain line a phase on stderr."""
    result = shell("--out", str(shell.bench.out))
    assert 0 == result.code
    assert expected_tree() == tree_of(shell.bench.out)
    lines = result.out.splitlines()
    assert ["downloaded"] * 5 == [line.split()[0] for line in lines[:5]]
    assert lines[5].startswith(f"{REPO} @ {COMMIT} in {shell.bench.out}, lock ")
    assert "fetch: listing the commit\nfetch: downloading LICENSE (19 bytes)\n" in result.err
    assert 1 == result.err.count("downloading model.safetensors (300,000 bytes)")


def test_json_has_the_same_keys_whatever_was_done(shell: Shell) -> None:
    """Downloaded, verified, offline, planned, adopted: one shape, no clock, and stdout holds nothing else."""
    out = str(shell.bench.out)
    results = [shell(*args, "--json").json for args in (["--dry-run", "--out", out], ["--out", out], ["--out", out])]
    results.append(shell("--offline", "--out", out, "--json").json)
    assert {tuple(sorted(results[0]))} == {tuple(sorted(r)) for r in results}
    assert [True, False, False, False] == [r["dry_run"] for r in results]
    assert ["planned", "downloaded", "verified", "verified"] == [r["files"][0]["action"] for r in results]
    assert [0, sum(f["bytes"] for f in results[0]["files"]), 0, 0] == [r["received"] for r in results]
    assert (None, results[1]["lock_digest"]) == (results[0]["lock_digest"], results[3]["lock_digest"])
    assert results[0]["disk"]["needed"] == results[1]["received"]


def test_each_kind_of_failure_has_its_documented_exit_code(shell: Shell, tmp_path: Path) -> None:
    """2 usage, 4 identity, 5 output, 6 hub; stdout stays empty."""
    out = str(shell.bench.out)
    file = tmp_path / "file"
    file.write_bytes(b"")
    cases: list[tuple[int, list[str], str]] = [
        (2, [], "--out"),
        (2, ["--out", out, "--revision", "main"], f"--revision {COMMIT}"),
        (2, ["--out", out, "--revision", "main", "--offline"], "leave --revision out"),
        (2, ["--out", out, "--offline"], "no such folder"),
        (2, ["--adopt", str(tmp_path / "none")], "no such folder"),
        (2, ["--adopt", out, "--out", out, "--offline"], "give one of them"),
        (2, ["--out", out, "--timeout", "0"], "--timeout"),
        (2, ["--out", out, "--nonsense"], "--nonsense"),
        (5, ["--out", str(file)], "not a folder"),
        (6, ["--out", out, "--revision", OTHER], "no such commit"),
    ]
    for code, args, text in cases:
        result = shell(*args)
        assert (code, "") == (result.code, result.out)
        assert text in result.err
    shell.bench.hub.add(REPO, COMMIT, {**FILES, "model.safetensors": b"donor"})
    result = shell("--out", out)
    assert 4 == result.code
    assert "knows to be wrong" in result.err
    assert not shell.bench.out.exists()


def test_an_offline_look_up_is_never_made(shell: Shell) -> None:
    """--offline means no request, also for a hint."""
    shell("--out", str(shell.bench.out), "--revision", "main", "--offline")
    assert [] == shell.bench.hub.log


def test_quiet_says_nothing_but_errors(shell: Shell) -> None:
    """The data still comes."""
    result = shell("--out", str(shell.bench.out), main=("-q",))
    assert (0, "") == (result.code, result.err)
    assert "downloaded" in result.out


def test_another_commit_is_noted_on_stderr(shell: Shell) -> None:
    """The note says who will refuse the checkpoint."""
    shell.bench.hub.add(REPO, OTHER, FILES)
    result = shell("--out", str(shell.bench.out), "--revision", OTHER)
    assert 0 == result.code
    assert f"note: {OTHER} is not the commit that the profile" in result.err


def test_a_bad_endpoint_is_a_usage_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_ENDPOINT without a scheme is a common slip."""
    monkeypatch.setenv("HF_ENDPOINT", "hub.example")
    result = shell("--out", str(shell.bench.out))
    assert 2 == result.code
    assert "HF_ENDPOINT" in result.err


def test_the_module_starts_as_a_command(hub: LoopbackHub, tmp_path: Path) -> None:
    """``python -m forgepack`` on a real process: no library log reaches stderr, the hub's retries are told once."""
    hub.fault("GET", "/tree/", status=418)
    env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_secret"}
    command = [sys.executable, "-m", "forgepack", "fetch", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert 6 == done.returncode
    lines = done.stderr.splitlines()
    assert ["fetch: listing the commit", "forgepack: error: the hub"] == [lines[0], lines[1][:25]]
    assert "hf_secret" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_the_live_bar_takes_every_phase(capsys: pytest.CaptureFixture[str]) -> None:
    """Hostile names and notes are escaped and never taken for markup."""
    with LiveProgress() as live:
        live(Progress(phase="list"))
        live(Progress(phase="check", path="a[b]", done=1, total=2))
        live(Progress(phase="download", path="x\x1b[2J", done=1, total=2, rate=1.0))
        live(Progress(phase="retry", path="x\x1b[2J", note="[red]again\x1b[2J"))
        live(Progress(phase="copy", path="y", done=2, total=2))
        live(Progress(phase="publish"))
    text = capsys.readouterr().err
    assert "fetch: x\\x1b[2J: [red]again\\x1b[2J" in text.replace("\n", "")
    assert "\x1b[2J" not in text
