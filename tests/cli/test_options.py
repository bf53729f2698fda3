"""What weakens a check comes from the command line alone: no file of the folder and no variable can do it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from forgepack.cli.main import COMMANDS, STEPS, forgepack, run
from forgepack.cli.settable import PROGRAM, SETTABLE, TALK, settable
from forgepack.cli.variables import long_name, variable_of
from forgepack.render import FORMATS
from forgepack.schema_check import schema_faults
from tests.verify.sabotage import put

PROFILE = ["--profile", "profile.json"]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every variable of this tool out of the environment."""
    for name in [*os.environ]:
        if "FORGEPACK" in name:
            monkeypatch.delenv(name)


@pytest.fixture
def here(pair: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a checkout that holds the pair."""
    monkeypatch.chdir(pair)
    return pair


def verify(*args: str) -> int:
    """Verify the pair of this folder at the default depth of headers, as a CI job would."""
    return run(["verify", "drafter", "--target", "target", *PROFILE, "--depth", "header", *args])


def options() -> Iterator[tuple[str, click.Option]]:
    """Yield each option of each command but help."""
    context = click.Context(forgepack)
    for name in COMMANDS:
        command = forgepack.get_command(context, name)
        assert command is not None
        yield from ((name, one) for one in command.params if isinstance(one, click.Option))


LINE_ALONE = [
    pytest.param(command, long_name(one), id=f"{command}-{long_name(one)}")
    for command, one in options()
    if settable(command, long_name(one)).variable is None and command in ("verify", "gate", "attest", "fetch")
]


def test_every_option_states_where_it_may_be_set() -> None:
    """An option without a line in the table fails here, and so does a line without its option."""
    found: dict[str, set[str]] = {name: set() for name in COMMANDS}
    for command, one in options():
        found[command].add(long_name(one))
    assert {name: {*SETTABLE[name], *TALK} - {"help"} for name in COMMANDS} == found
    assert {*PROGRAM} - {"help"} == {long_name(one) for one in forgepack.params if isinstance(one, click.Option)}


def test_what_verify_takes_from_elsewhere_is_the_rule() -> None:
    """The list of what a file or a variable may set for verify is this one."""
    named = {"profile", "depth", "strict", "deny", "timeout", "blocks", "format"}
    assert named == {name for name, one in SETTABLE["verify"].items() if one.file is not None}
    assert named == {name for name, one in SETTABLE["verify"].items() if one.variable is not None}


def test_no_output_and_no_force_is_set_elsewhere() -> None:
    """Of all commands a recipe's own output and work folder alone are named in a file, and none in a variable."""
    writes = {"out", "output", "work", "files", "report", "plot", "force", "dry-run", "adopt"}
    loose = {
        (command, name)
        for command, one in SETTABLE.items()
        for name in writes & set(one)
        if one[name].file is not None or one[name].variable is not None
    }
    assert {("build", "output"), ("build", "work")} == loose
    assert SETTABLE["build"]["output"].variable is None


@pytest.mark.parametrize(("command", "name"), LINE_ALONE)
def test_a_variable_for_the_command_line_alone_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    """Exit 2, with the variable and what to do; nothing of the command is done before."""
    monkeypatch.setenv(variable_of(command, name), "1")
    assert 2 == run([command, "x"])
    told = capsys.readouterr().err
    assert f"where: {variable_of(command, name)}" in told
    assert f"give --{name} to forgepack {command}" in told


@pytest.mark.parametrize(
    "text",
    [
        'select = ["LIC001"]',
        'ignore = ["ALL"]',
        'waivers = "w.toml"',
        'baseline = "b.json"',
        'attestation = ["a.json"]',
        'evidence = ["e.json"]',
        "allow-links = true",
        "exit-zero = true",
        'report = ["text=victim"]',
        "plain = true",
        'bundle = "elsewhere"',
        'hub = "o/n@c"',
        'target = "elsewhere"',
        'quant = "elsewhere"',
        'checkpoint = "elsewhere"',
        'traces = "elsewhere"',
        'depth = "header"',
        'depth = "hash"',
        'profile = "own.json"',
    ],
)
@pytest.mark.parametrize("name", ["forgepack.toml", "pyproject.toml", "sub/other.toml"])
def test_a_key_for_the_command_line_alone_is_an_error(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, name: str
) -> None:
    """In each kind of file; the key is named with its place, and what is right beside it changes nothing."""
    head = "[tool.forgepack.verify]" if name == "pyproject.toml" else "[verify]"
    (here / "sub").mkdir()
    (here / name).write_text(f"{head}\n{text}\nstrict = true\n")
    (here / "victim").write_text("thesis")
    more = ["--config", name] if name.startswith("sub") else []
    assert 2 == run([*more, "verify", "drafter", "--target", "target", *PROFILE])
    told = capsys.readouterr().err
    assert f"{name}: verify.{text.split(' ', maxsplit=1)[0]}" in told
    assert "next: " in told
    assert "thesis" == (here / "victim").read_text()


def test_the_checkout_can_not_weaken_a_wrong_pair(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever one file or variable says, a pair that is wrong never ends with 0."""
    put("drafter/config.json", "hidden_size", value=64)(here)
    attacks: list[tuple[str, Any]] = [("exit-zero", True), ("select", ["LIC001"]), ("ignore", ["ALL"])]
    attacks += [("strict", False), ("timeout", 0.001), ("blocks", 1), ("format", "json"), ("deny", [])]
    attacks += [("help", True), ("version", True), ("isolated", True), ("quiet", True), ("whole", False)]
    for key, value in attacks:
        (here / "forgepack.toml").write_text(f"[verify]\n{key} = {json.dumps(value)}\n")
        assert verify() in (1, 2), key
        (here / "forgepack.toml").unlink()
        text = ",".join(value) if isinstance(value, list) else str(value).lower()
        for name in (variable_of("verify", key), f"FORGEPACK_{key}".upper(), f"FORGEPACK_VERIFY_{key}S".upper()):
            with monkeypatch.context() as patch:
                patch.setenv(name, text)
                assert verify() in (1, 2), name
    for name in ("FORGEPACK__CLICK_DEFAULT_HELP", "FORGEPACK_VERIFY__CLICK_DEFAULT_HELP", "FORGEPACK_VERIFY_HELP"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert 1 == verify(), name


def test_completion_is_asked_without_words(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell's variable makes no command end with 0 in place of its work."""
    put("drafter/config.json", "hidden_size", value=64)(here)
    monkeypatch.setenv("_FORGEPACK_COMPLETE", "bash_source")
    assert 1 == verify()


@pytest.mark.parametrize("name", ["CONFIG", "ISOLATED"])
def test_no_variable_puts_the_folders_file_aside(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A file may only strengthen, so leaving it out would weaken."""
    monkeypatch.setenv(f"FORGEPACK_{name}", "1")
    assert 2 == verify()
    assert f"where: FORGEPACK_{name}" in capsys.readouterr().err
    assert 0 == run(["rules"])


@pytest.mark.parametrize(
    ("key", "file", "variable", "code"),
    [
        ("strict", "true", "0", 2),
        ("strict", "true", "1", 1),
        ("strict", "false", "0", 0),
        ("deny", '["a.toml"]', "b.toml", 2),
        ("deny", '["a.toml"]', f"a.toml{os.pathsep}b.toml", 0),
        ("depth", '"run"', "lineage", 2),
        ("depth", '"lineage"', "run", 0),
    ],
)
def test_a_variable_takes_back_nothing_that_the_file_demands(
    here: Path, monkeypatch: pytest.MonkeyPatch, *, key: str, file: str, variable: str, code: int
) -> None:
    """The stricter of two demands can be relaxed by the command line alone."""
    for name in ("a.toml", "b.toml"):
        (here / name).write_text(f'[[deny]]\nsha256 = "{"0" * 64}"\nreason = "r"\n')
    (here / "drafter/.DS_Store").write_bytes(b"x")
    (here / "forgepack.toml").write_text(f"[verify]\n{key} = {file}\n")
    monkeypatch.setenv(variable_of("verify", key), variable)
    assert code == verify()


def test_reports_say_which_option_came_from_where(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name, value and place in every format; a hostile name is escaped; the default is not told."""
    evil = "a\x1b[2J\n::error::x.toml"
    (here / evil).write_text(f'[[deny]]\nsha256 = "{"0" * 64}"\nreason = "r"\n')
    (here / "forgepack.toml").write_text(f"[verify]\ndeny = [{json.dumps(evil)}]\n")
    monkeypatch.setenv("FORGEPACK_VERIFY_STRICT", "1")
    assert 0 == verify("--format", "json")
    report = json.loads(capsys.readouterr().out)
    assert () == schema_faults(report, "report")
    told = {one["name"]: (one["source"], one["place"]) for one in report["options"]}
    line = ("command line", "")
    assert {
        "deny": ("file", "forgepack.toml: verify.deny"),
        "depth": line,
        "profile": line,
        "strict": ("variable", "FORGEPACK_VERIFY_STRICT"),
        "target": line,
    } == told
    for name in set(FORMATS) - {"json", "junit"}:
        assert 0 == verify("--format", name)
        shown = capsys.readouterr().out
        assert "option strict = true (from variable FORGEPACK_VERIFY_STRICT)" in shown, name
        assert "forgepack.toml: verify.deny" in shown, name
        assert "\x1b" not in shown, name
        assert not any(line.startswith("::error") for line in shown.splitlines()), name
    assert 0 == verify("-v")
    assert "option depth = header (from the command line)" in capsys.readouterr().out


def test_a_gate_can_demand_the_whole(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--whole, which the action and the hook give, refuses a selection whose exit code would be 0."""
    assert 0 == verify("--select", "CTR005")
    assert capsys.readouterr().out.startswith("SELECTION")
    assert 2 == verify("--select", "CTR005", "--whole")
    assert 0 == verify("--whole", "--ignore", "LIC006")


def test_a_recipes_profile_that_does_not_ship_judges_no_other_command(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It serves the build; verify names it, unless the command line says who judges."""
    (here / "forgepack.toml").write_text('profile = "profile.json"\n')
    assert 2 == run(["verify", "drafter", "--target", "target"])
    assert "where: forgepack.toml: profile" in capsys.readouterr().err
    assert 0 == verify()


def test_a_build_answers_for_the_options_of_its_steps(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable that weakens a step is refused in a build as in the step itself."""
    assert {"verify", "fetch", "bundle"} < set(STEPS["build"])
    monkeypatch.setenv("FORGEPACK_VERIFY_IGNORE", "ALL")
    assert 2 == run(["build"])
    assert "where: FORGEPACK_VERIFY_IGNORE" in capsys.readouterr().err


@pytest.mark.parametrize(("mark", "name"), [("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16")])
def test_a_byte_order_mark_is_told_as_what_it_is(
    here: Path, capsys: pytest.CaptureFixture[str], mark: str, name: str
) -> None:
    """In a configuration, a policy, waivers: the hint is to save the file again, whatever its form."""
    for file, args in (
        ("forgepack.toml", ["verify", "drafter", "--target", "target", *PROFILE]),
        ("policy.toml", ["gate", "profile.json", "--policy", "policy.toml"]),
        ("policy.json", ["gate", "profile.json", "--policy", "policy.json"]),
        ("deny.toml", ["verify", "drafter", "--target", "target", *PROFILE, "--deny", "deny.toml"]),
    ):
        (here / file).write_bytes('schema = "x"\n'.encode(mark))
        assert 2 == run(args), file
        told = capsys.readouterr().err
        assert f"that of {name}" in told, file
        assert "next: save the file again as UTF-8" in told, file
        (here / file).unlink()
