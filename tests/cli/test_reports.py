"""The files that ``verify --report`` names: never lost, never stale, never what was read."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from forgepack.cli.main import run
from forgepack.render import FORMATS
from forgepack.render.recognize import is_report
from forgepack.schema_check import schema_faults
from tests.cli.test_verify import arguments
from tests.verify.sabotage import remove

SIDECAR = "drafter/dflash2_lut4_gptq.json"


@pytest.fixture
def reports(pair: Path) -> dict[str, Path]:
    """Return a place for each form, in a folder beside the pair."""
    (pair / "reports").mkdir()
    return {form: pair / "reports" / f"report.{form}" for form in FORMATS}


def named(reports: dict[str, Path]) -> list[str]:
    return [word for form, path in reports.items() for word in ("--report", f"{form}={path}")]


@pytest.mark.parametrize("spoiled", [False, True], ids=["pass", "fail"])
def test_the_same_names_may_be_written_every_day(pair: Path, reports: dict[str, Path], spoiled: bool) -> None:
    """A report of its form is replaced without --force; nothing is left beside it."""
    if spoiled:
        remove("drafter/LICENSE")(pair)
    for _ in range(2):
        assert int(spoiled) == run(arguments(pair, "header", *named(reports)))
        assert all(is_report(path, form) for form, path in reports.items())
    assert {path.name for path in reports.values()} == {path.name for path in (pair / "reports").iterdir()}


def test_a_form_is_not_taken_for_another(pair: Path, reports: dict[str, Path]) -> None:
    """A report of another form is another file: it needs --force."""
    assert 0 == run(arguments(pair, "header", *named(reports)))
    for form, path in reports.items():
        data = path.read_bytes()
        assert {form} == {other for other in FORMATS if is_report(path, other)}
        other = next(one for one in FORMATS if one != form)
        assert 2 == run(arguments(pair, "header", "--report", f"{other}={path}"))
        assert data == path.read_bytes()


FOREIGN = [b"thesis", b'{"tool": "other", "verdict": "pass"}', b'{"runs": []}', b"<testsuites/>", b"PASS all\n"]


@pytest.mark.parametrize("data", FOREIGN)
@pytest.mark.parametrize("form", FORMATS)
def test_a_foreign_file_needs_force(pair: Path, form: str, data: bytes) -> None:
    """Whatever no report of this form is stays; with --force it is replaced; an empty file is nobody's."""
    path = pair / "mine"
    path.write_bytes(data)
    for wrong in ((), ("--depth", "deep")):
        assert 2 == run(arguments(pair, "header", "--report", f"{form}={path}", *wrong))
        assert data == path.read_bytes()
    assert 0 == run(arguments(pair, "header", "--report", f"{form}={path}", "--force"))
    path.write_bytes(b"")
    assert 0 == run(arguments(pair, "header", "--report", f"{form}={path}"))


@pytest.mark.parametrize("more", [(), ("--force",), ("--force", "--depth", "deep"), ("--force", "--nonsense")])
@pytest.mark.parametrize("way", ["straight", "by a link", "by a link to the file", "through .."])
def test_what_is_read_is_never_a_report(pair: Path, way: str, more: tuple[str, ...]) -> None:
    """By any name and with any other fault of the command line: exit 2, and the sidecar stays."""
    before = (pair / SIDECAR).read_bytes()
    (pair / "lnk").symlink_to("drafter")
    (pair / "file").symlink_to(SIDECAR)
    places = {"straight": SIDECAR, "by a link": f"lnk/{Path(SIDECAR).name}", "by a link to the file": "file"}
    place = pair / places.get(way, f"target/../{SIDECAR}")
    assert 2 == run(arguments(pair, "header", "--report", f"json={place}", *more))
    assert before == (pair / SIDECAR).read_bytes()
    assert (pair / "file").is_symlink()


@pytest.mark.parametrize("role", ["--baseline", "--waivers", "--deny", "--traces", "--profile"])
def test_no_file_that_is_named_is_a_report(pair: Path, role: str) -> None:
    """Also an older report: as a baseline it is read."""
    path = pair / "older.json"
    assert 0 == run(arguments(pair, "header", "--report", f"json={path}"))
    before = path.read_bytes()
    assert 2 == run([*arguments(pair, "header", "--report", f"json={path}", "--force"), role, str(path)])
    assert before == path.read_bytes()


def test_two_reports_are_two_files(pair: Path) -> None:
    """One file by two names is refused."""
    (pair / "lnk").symlink_to(".")
    for second in (f"sarif={pair}/r", f"sarif={pair}/lnk/r", f"json={pair}/./r"):
        assert 2 == run(arguments(pair, "header", "--report", f"json={pair}/r", "--report", second))


WRONG = {
    "an unknown option": (2, ["--nonsense"]),
    "a wrong value": (2, ["--depth", "deep"]),
    "a missing value": (2, ["--depth"]),
    "an unknown profile": (2, ["--profile", "mni"]),
    "a path that is not there": (2, ["--checkpoint", "/nowhere"]),
    "a wrong report": (2, ["--report", "pdf=x"]),
    "two subjects": (2, ["--bundle", "drafter"]),
    "a wrong configuration": (2, []),
    "no package": (3, []),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_replaces_yesterdays_report(
    pair: Path, reports: dict[str, Path], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends with 2 or 3 leaves a report of its error in every form, and none of yesterday's pass."""
    monkeypatch.chdir(pair)
    assert 0 == run(arguments(pair, "header", *named(reports)))
    code, more = WRONG[case]
    line = arguments(pair, "header", *named(reports), *more)
    if case == "a wrong configuration":
        (pair / "forgepack.toml").write_text("nonsense = 1")
    if case == "no package":
        shutil.rmtree(pair / "drafter")
        (pair / "drafter").mkdir()
    assert code == run(line)
    raw = json.loads(reports["json"].read_bytes())
    assert ("error", code, []) == (raw["verdict"], raw["exit_code"], raw["checks"])
    (error,) = raw["errors"]
    assert (code, True) == (error["exit_code"], bool(error["what"] and error["remedy"]))
    assert () == tuple(schema_faults(raw, "report"))
    invocation = json.loads(reports["sarif"].read_bytes())["runs"][0]["invocations"][0]
    assert (False, code) == (invocation["executionSuccessful"], invocation["exitCode"])
    assert "1" == ElementTree.fromstring(reports["junit"].read_bytes()).get("errors")
    assert reports["text"].read_text().startswith("ERROR")
    assert "::error" in reports["github"].read_text()
    assert all(is_report(path, form) for form, path in reports.items())


def test_a_pipe_gets_the_report_and_its_error(pair: Path) -> None:
    """A pipe is written through, however the run ends, and stays a pipe."""
    pipe = pair / "pipe"
    os.mkfifo(pipe)
    for more, verdict in (([], "pass"), (["--depth", "deep"], "error")):
        got: list[bytes] = []
        reader = threading.Thread(target=lambda got=got: got.append(pipe.read_bytes()))
        reader.start()
        run(arguments(pair, "header", "--report", f"json={pipe}", *more))
        reader.join(60)
        assert verdict == json.loads(got[0])["verdict"]
    assert pipe.is_fifo()


def test_a_planted_link_is_not_followed(pair: Path) -> None:
    """Links of guessed temporary names, and one in the report's place, lead nowhere."""
    (pair / "victim").write_text("kept")
    for name in (".out.json.part", "out.json.tmp", "planted"):
        (pair / name).symlink_to("victim")
    assert 0 == run(arguments(pair, "header", "--report", f"json={pair}/out.json"))
    assert 2 == run(arguments(pair, "header", "--report", f"json={pair}/planted", "--force"))
    assert "kept" == (pair / "victim").read_text()


def test_a_half_of_a_replacement_is_named(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the old folder is set aside and the new one is not in, verify names both halves and the command."""
    (pair / ".drafter.work").mkdir()
    shutil.copytree(pair / "drafter", pair / ".drafter.work/new")
    (pair / "drafter").rename(pair / ".drafter.old")
    assert 2 == run(arguments(pair, "header"))
    err = capsys.readouterr().err
    for words in (".drafter.old", ".drafter.work/new", "forgepack emit", "mv "):
        assert words in err
