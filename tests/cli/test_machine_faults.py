"""What the machine does to a run: each a documented code and a cure, never an internal error."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_verify import PROJECT, arguments

# A shell's setting before the command or its redirection behind it, the depth, the code, and words of the message.
FAULTS: dict[str, tuple[str, str, str, int, str]] = {
    "stdout is closed": ("", ">&-", "header", 5, "standard output is closed"),
    "stderr is closed": ("", "2>&-", "header", 0, ""),
    "stderr is full": ("", "2>/dev/full", "header", 0, ""),
    "both are full": ("", ">/dev/full 2>/dev/full", "header", 5, ""),
    "stdin is closed": ("", "<&-", "header", 0, ""),
    "no stream at all": ("", "<&- >&- 2>&-", "header", 5, ""),
    "the reader has gone": ("", "| :; exit ${PIPESTATUS[0]}", "header", 5, ""),
    "little memory": ("ulimit -v 300000;", "", "header", 4, "needs more memory"),
    "few open files": ("ulimit -n 8;", "", "lineage", 4, "too many open files"),
    "another locale": ("export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0;", "", "header", 0, ""),
    "no HOME": ("unset HOME;", "", "header", 0, ""),
    "a mask that takes all": ("umask 777;", "", "header", 0, ""),
}


def played(before: str, words: list[str], after: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the tool in a shell."""
    line = f"{before} {shlex.join([sys.executable, '-m', 'forgepack', *words])} {after}"
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.parametrize("name", FAULTS)
def test_the_machines_fault_has_its_code(base: Path, tmp_path: Path, name: str) -> None:
    """The message names the cause; no traceback, and nothing that is right is refused."""
    before, after, depth, code, words = FAULTS[name]
    done = played(before, arguments(base, depth), after, tmp_path)
    assert (code, True) == (done.returncode, words in done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.parametrize("after", ["2>/dev/full", "2>&-", "2> >(:)"])
@pytest.mark.parametrize(
    "words", [["verify", "nosuch", "--target", "nosuch"], ["nosuch"], ["inspect"], ["rules", "--no"]]
)
def test_talk_that_nobody_hears_changes_no_code(tmp_path: Path, words: list[str], after: str) -> None:
    """A stderr that can't be written is no fault of what was asked: the code is that of the error itself."""
    assert 2 == played("", words, after, tmp_path).returncode


def test_doctor_names_what_is_missing_for_temporary_files(tmp_path: Path) -> None:
    """No file may be written anywhere: the variable that could help is named."""
    done = played("ulimit -f 0;", ["doctor"], "", tmp_path)
    assert (7, True, True) == (done.returncode, "MISSING  temporary files" in done.stdout, "TMPDIR" in done.stdout)


def test_a_current_folder_that_is_gone(base: Path, tmp_path: Path) -> None:
    """Absolute paths still do; what needs the folder is usage, by name."""
    (tmp_path / "gone").mkdir()
    before = f"cd {shlex.quote(str(tmp_path / 'gone'))}; rmdir ../gone;"
    assert 0 == played(before, arguments(base, "hash"), "", tmp_path).returncode
    named = ["--profile", str(base / "profile.json"), "--out", "new"]
    package = [str(base / "drafter"), "--target", str(base / "target")]
    upstream = ["--upstream-id", "a/b", "--upstream-revision", "0" * 40]
    writing = (["bundle", *package, *named, *upstream], ["fetch", "--adopt", str(base / "checkpoint"), *named])
    for words in (["doctor"], ["demo", "--files", "new"], *writing):
        (tmp_path / "gone").mkdir(exist_ok=True)
        done = played(before, words, "", tmp_path)
        assert (2, True) == (done.returncode, "current folder no longer exists" in done.stderr), (words, done.stderr)


@pytest.mark.parametrize("style", ["text", "json", "sarif", "junit", "github"])
@pytest.mark.parametrize("folder", ["drafter", "target/coreai", "checkpoint"])
def test_a_name_that_is_not_utf_8_is_shown(pair: Path, tmp_path: Path, folder: str, style: str) -> None:
    """As an escape, in every format."""
    with open(os.fsencode(pair / folder) + b"/x\xfe.txt", "wb"):  # noqa: PTH123 - bytes that no Path writes down
        pass
    named = arguments(pair, "header", "--checkpoint", str(pair / "checkpoint"), "--format", style)
    done = played("", named, "", tmp_path)
    assert done.returncode in (0, 1), done.stderr
    if style in ("json", "sarif"):
        json.loads(done.stdout)


def test_a_path_that_is_not_utf_8(pair: Path, tmp_path: Path) -> None:
    """A pair in a folder of any name is verified; a letter beyond ASCII is shown whatever the locale."""
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/n\xff\xc3\xbc"))
    pair.rename(place)
    for before in ("", "export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0;"):
        assert 0 == played(before, arguments(place, "hash"), "", tmp_path).returncode
        done = played(before, ["inspect", str(place / "absent")], "", tmp_path)
        assert (2, True) == (done.returncode, "n\\udcffü" in done.stderr), done.stderr
