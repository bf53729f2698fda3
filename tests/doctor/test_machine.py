"""doctor and completion: what a newcomer asks first."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from forgepack.cli.main import COMMANDS, run
from forgepack.doctor import machine
from forgepack.doctor.machine import Condition, look_around
from forgepack.errors import HubError
from forgepack.miniature.data import find_miniature
from forgepack.profile import load_profile
from tests.hub.conftest import client_home  # noqa: F401  (an autouse fixture: nothing of this machine's settings)
from tests.hub.loopback import LoopbackHub


def named(conditions: tuple[Condition, ...]) -> dict[str, Condition]:
    """Return the conditions by name."""
    return {condition.name: condition for condition in conditions}


def test_this_machine_has_what_it_needs(tmp_path: Path) -> None:
    """The machine of the suite is in order, and no network was used."""
    found = named(look_around(tmp_path))
    assert [] == [c for c in found.values() if c.state == "missing"]
    assert {"python", "Core AI", "Core ML tools", "profiles", "schemas", "miniature", "disk", "folder", "hub"} <= set(
        found
    )
    assert ("note", "not asked") == (found["hub"].state, found["hub"].found)
    assert [] == list(tmp_path.iterdir())


def test_missing_core_ai_is_exit_7(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Another version of Core AI's package is told with the command that installs the right one."""
    monkeypatch.setattr("forgepack.coreai_backend.availability.installed_version", lambda: "0.9")
    assert 7 == run(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert ["Core AI"] == report["missing"]
    hint = next(c["hint"] for c in report["conditions"] if c["name"] == "Core AI")
    assert "pip install" in hint


def test_import_that_fails_is_told_by_its_last_line() -> None:
    """A package that is there and can't be imported does not end the doctor."""
    found = machine._imported("X", "raise ImportError('no such symbol')", state="missing", hint="h")
    assert ("missing", True) == (found.state, "no such symbol" in found.found)


def test_the_current_folder_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that holds a module of a dependency's name is neither run nor taken for it."""
    (tmp_path / "coreai").mkdir()
    (tmp_path / "coreai/__init__.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    look_around(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_dependencies_are_judged_by_their_declared_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent and too old ones are missing, markers of other systems are left out."""
    declared = ["numpy>=2.1", "absent-package>=1", "click>=99", 'winonly>=1; sys_platform == "win32"']
    monkeypatch.setattr("importlib.metadata.requires", lambda _: declared)
    found = {c.name: c.state for c in machine._dependencies()}
    assert {"numpy": "ok", "absent-package": "missing", "click": "missing"} == found


def test_little_disk_and_read_only_folders_are_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keeps a verification from running."""
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1))
    monkeypatch.setattr("tempfile.TemporaryFile", _refuse)
    found = named(look_around(tmp_path))
    assert ("note", "note") == (found["disk"].state, found["folder"].state)


def _refuse(**_: object) -> object:
    raise PermissionError(13, "Permission denied")


def test_hub_is_asked_only_when_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """--online lists the profile's commit; a hub that is away is a note, for most work needs none."""
    pin = load_profile("mini").hub
    with LoopbackHub.serve({pin.repo: {pin.commit: find_miniature().checkpoint}}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        assert 0 == run(["doctor", "--profile", "mini"])
        assert [] == hub.log
        assert 0 == run(["doctor", "--online", "--profile", "mini"])
    assert f"lists 5 files of {pin.repo}" in capsys.readouterr().out

    def away() -> str:
        raise HubError("the hub can't be reached", found="refused", hint="later")

    assert ("note", "the hub can't be reached: refused") == (machine._hub(away).state, machine._hub(away).found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_one_of_its_shell(shell: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """The script is printed, and the shell can read it where it is installed."""
    assert 0 == run(["completion", shell])
    script = capsysbinary.readouterr().out
    assert b"_FORGEPACK_COMPLETE=%s_complete" % shell.encode() in script
    tool = shutil.which(shell)
    if tool is not None:
        subprocess.run([tool, "-n"], input=script, check=True)


def test_other_shells_are_usage_errors() -> None:
    """A shell that is not served is refused with the list."""
    assert 2 == run(["completion", "tcsh"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("forgepack ver", {"verify"}),
        ("forgepack verify --dep", {"--depth"}),
        ("forgepack verify --depth li", {"lineage"}),
    ],
)
def test_completion_answers_the_shell(words: str, expected: set[str]) -> None:
    """Commands, options and choices are completed by the command itself."""
    asked = {"_FORGEPACK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    env = {**os.environ, **asked, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "forgepack"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert expected == {line.partition(",")[2] for line in done.stdout.split()}


def test_every_new_command_is_listed() -> None:
    """bundle, build, doctor and completion stand in the help's list."""
    assert {"bundle", "build", "doctor", "completion"} <= set(COMMANDS)
