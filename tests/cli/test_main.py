"""The command line's manners: codes, streams, suggestions, and what a start imports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from forgepack import __version__
from forgepack.cli.main import COMMANDS, run
from forgepack.errors import ForgepackError
from tests.cli.imports import FOR_HEADERS, FOR_HELP, IMPORTED

PACKAGE = Path(__file__).parents[2] / "forgepack"


def call(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forgepack", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_version_and_help_go_to_stdout() -> None:
    """Both exit with 0 and say nothing on stderr."""
    for args, text in ((["--version"], __version__), (["--help"], "Exit codes:"), (["-h"], "fetch -> quantize")):
        done = call(*args)
        assert (0, "", True) == (done.returncode, done.stderr, text in done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command explains itself with -h, and takes -q and -v after its name."""
    assert 0 == run([name, "-h"])
    text = capsys.readouterr().out
    assert (True, True) == (f"Usage: forgepack {name}" in text, "-q, --quiet" in text)


def test_a_typo_names_the_closest_command(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown command is a usage error with a suggestion."""
    assert 2 == run(["quantise"])
    assert "did you mean quantize?" in capsys.readouterr().err


def test_the_command_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the help goes to stderr, and the code says that nothing was done."""
    assert 2 == run([])
    done = capsys.readouterr()
    assert ("", True, False) == (
        done.out,
        done.err.startswith("Usage: forgepack"),
        "forgepack: error" in done.err,
    )


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """An option that does not exist exits with 2 and names the closest one."""
    assert 2 == run(["verify", "--dept", "hash", "x"])
    assert "--depth" in capsys.readouterr().err


def test_every_error_class_owns_a_documented_code() -> None:
    """Codes of the error tree are those that --help documents."""
    documented = {int(n) for n in re.findall(r"^    (\d+) ", call("--help").stdout, re.MULTILINE)}
    codes, pending = set(), [ForgepackError]
    while pending:
        cls = pending.pop()
        codes.add(cls.exit_code)
        pending += cls.__subclasses__()
    assert codes <= documented
    assert {0, 1, 2, 3, 4, 5, 6, 7, 70, 130} == documented


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([["--help"], ["--version"]], FOR_HELP),
        ([*([name, "--help"] for name in COMMANDS), ["explain", "TAP001"]], FOR_HEADERS),
    ],
    ids=["the tool", "every command"],
)
def test_help_imports_next_to_nothing(lines: list[list[str]], expected: list[str]) -> None:
    """Help needs no installed package but these, whatever is installed: coreai, scipy and their like least."""
    code = [sys.executable, "-c", IMPORTED, json.dumps(lines)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    found = json.loads(done.stderr.splitlines()[-1])
    assert ({0}, expected) == (set(found["codes"]), found["packages"])


def test_torch_is_nowhere_in_the_product() -> None:
    """No file of the package or of the tests imports torch."""
    imports = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)
    files = [*PACKAGE.rglob("*.py"), *Path(__file__).parents[1].rglob("*.py")]
    assert len(files) > 100
    assert [] == [str(p) for p in files if imports.search(p.read_text(encoding="utf-8"))]


def test_a_reader_that_has_gone_is_an_output_error() -> None:
    """A closed stdout ends with 5 and without a traceback."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "forgepack", "explain", "--all"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (5, b"") == (done.returncode, done.stderr)


def test_an_interrupt_is_130() -> None:
    """SIGINT ends with 130 and one line."""
    code = (
        "import os, signal, sys\nimport forgepack.cli.main as m\n"
        # a job in the background of a shell starts with SIGINT ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import forgepack.cli.schema as s\n"
        "def stop(*a, **k): os.kill(os.getpid(), signal.SIGINT); signal.pause()\n"
        "s.schema.callback = stop\nsys.exit(m.run(['schema', 'sidecar']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (130, "forgepack: interrupted\n") == (done.returncode, done.stderr)


def test_an_internal_error_is_70_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of the tool exits with 70, names its kind, and escapes what it prints."""
    from forgepack.cli import schema

    def fail(**_: object) -> None:
        raise RuntimeError("bad \x1b[2J text")

    monkeypatch.setattr(schema.schema, "callback", fail)
    assert 70 == run(["schema", "sidecar"])
    text = capsys.readouterr().err
    assert (True, False) == ("internal error: RuntimeError" in text, "\x1b" in text)
