"""Where options come from: flag, variable, file, default, in this order; and what a file may not say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import pytest

from forgepack.cli.config import load_config
from forgepack.cli.main import COMMANDS, forgepack, run
from forgepack.errors import UsageError
from forgepack.schema_check import schema_faults
from tests.release.config_schema import SCHEMA, config_schema


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder without variables of this tool."""
    for name in ("FORGEPACK_PROFILE", "FORGEPACK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def find(name: str) -> click.Command | None:
    """Return a command by its name."""
    return forgepack.get_command(click.Context(forgepack), name)


def defaults(text: str, name: str = "forgepack.toml") -> Any:
    """Write a configuration and return what it sets."""
    Path(name).write_text(text)
    return load_config(None, COMMANDS, find).defaults


def refused(text: str, name: str = "forgepack.toml") -> UsageError:
    """Return the error that a configuration is refused with."""
    with pytest.raises(UsageError) as caught:
        defaults(text, name)
    return caught.value


def test_no_file_sets_nothing() -> None:
    """Without a file, or with a project file of others, every option has its own default."""
    assert {} == load_config(None, COMMANDS, find).defaults
    assert {} == defaults('[project]\nname = "x"\n[tool.ruff]\n', "pyproject.toml")


@pytest.mark.parametrize("name", ["forgepack.toml", "pyproject.toml"])
def test_a_file_that_can_not_be_read_is_never_passed_over(here: Path, name: str) -> None:
    """A link to nowhere, to itself, or a pipe: what it demands may be stricter than the defaults."""
    for make in (lambda path: path.symlink_to("gone"), lambda path: path.symlink_to(name), os.mkfifo):
        make(here / name)
        with pytest.raises(UsageError) as caught:
            load_config(None, COMMANDS, find)
        assert name == caught.value.where
        (here / name).unlink()


def test_project_file_speaks_below_tool_forgepack() -> None:
    """[tool.forgepack] holds the same keys; forgepack.toml goes before it."""
    assert "run" == defaults('[tool.forgepack.verify]\ndepth = "run"\n', "pyproject.toml")["verify"]["depth"]
    assert "lineage" == defaults('[verify]\ndepth = "lineage"\n')["verify"]["depth"]


def test_profile_at_the_top_is_every_commands() -> None:
    """The recipe's profile judges in every command, unless its table says another."""
    found = defaults('profile = "mini"\n[emit]\nprofile = "qwen3.8-27b-dflash2"\n')
    assert "mini" == found["verify"]["profile_name"]
    assert "qwen3.8-27b-dflash2" == found["emit"]["profile_name"]


def test_paths_are_relative_to_the_file(here: Path) -> None:
    """A file named from elsewhere means the folders beside it; absolute paths stay."""
    (here / "deep").mkdir()
    (here / "deep/other.toml").write_text(
        'output = "out"\ntraces = "/data/t.npz"\nprofile = "own.json"\n[verify]\ndeny = ["list.json"]\n'
    )
    found = load_config(Path("deep/other.toml"), COMMANDS, find).defaults
    assert {"output": "deep/out", "traces": "/data/t.npz", "profile_name": "deep/own.json"} == found["build"]
    assert ["deep/list.json"] == found["verify"]["deny"]


@pytest.mark.parametrize(
    ("text", "where", "hint"),
    [
        ('ouput = "x"', "ouput", "did you mean output?"),
        ('held_out = "x"', "held_out", "did you mean held-out?"),
        ('[verfy]\ndepth = "hash"', "[verfy]", "did you mean verify?"),
        ('[verify]\ndept = "hash"', "verify.dept", "did you mean depth?"),
        ('[verify]\ndepth = "lineag"', "verify.depth", "did you mean 'lineage'?"),
        ("zzz = 1", "zzz", "known here: "),
    ],
)
def test_unknown_keys_and_values_name_the_closest(text: str, where: str, hint: str) -> None:
    """A typing error in a key, a table or a choice is an error that tells the place and what was meant."""
    error = refused(text)
    assert f"forgepack.toml: {where}" == error.where
    assert (error.hint or "").startswith(hint)
    assert 2 == error.exit_code


@pytest.mark.parametrize(
    "text",
    [
        "output = 1",
        'output = ["x"]',
        "[verify]\nstrict = 1",
        '[verify]\ntimeout = "soon"',
        "[verify]\ntimeout = true",
        '[verify]\ndeny = "list.json"',
        "[quantize]\nthreads = 0",
        "[verify]\nblocks = inf",
        "[verify]\nblocks = [1]",
        "[verify]\ntimeout = nan",
        "[fetch]\ntimeout = nan",
        'target = "a\\u0000b"',
        '[verify]\ndeny = ["a\\u0000b"]',
        "verify = 1",
        "[verify]\nforce = true",
        "[verify]\nplain = true",
        "[build]\nlocked = true",
        "[explain]\nx = 1",
        "output = ",
        "\x00",
    ],
)
def test_values_of_another_type_and_keys_for_each_time_are_refused(text: str) -> None:
    """Types are those of the options; what overwrites or weakens is said on the command line or not at all."""
    assert 2 == refused(text).exit_code


def test_damaged_project_file_is_told_only_where_it_speaks_of_us() -> None:
    """A project file that others broke is none of this tool's matters."""
    assert {} == defaults("not toml", "pyproject.toml")
    assert "TOML" in refused("[tool.forgepack\n", "pyproject.toml").what


def test_named_file_must_speak_of_us(here: Path) -> None:
    """--config names a file that exists and has something to say."""
    (here / "pyproject.toml").write_text("[project]\n")
    for name in ("absent.toml", "pyproject.toml"):
        with pytest.raises(UsageError, match=r"configuration|no settings"):
            load_config(Path(name), COMMANDS, find)


def timeout_of(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[str, str] | None:
    """Verify the bundle and return how the report says that its timeout was set, None for the default."""
    code = run([*args[:1], "verify", *args[1:]] if args[:1] == ("--isolated",) else ["verify", *args])
    assert 0 == code
    options = json.loads(capsys.readouterr().out)["options"]
    return next(((one["value"], one["place"] or one["source"]) for one in options if one["name"] == "timeout"), None)


def test_flag_goes_before_variable_before_file_before_default(
    here: Path, base: Path, released: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each source wins over those after it, --isolated leaves the file out, and the report says which it was."""
    named = ["--bundle", str(released), "--profile", str(base / "profile.json"), "--format", "json"]
    named += ["--depth", "header"]
    config = here / "forgepack.toml"
    config.write_text("[verify]\ntimeout = 30\n")
    monkeypatch.setenv("FORGEPACK_VERIFY_TIMEOUT", "20")
    assert ("10.0", "command line") == timeout_of(capsys, *named, "--timeout", "10")
    assert ("20.0", "FORGEPACK_VERIFY_TIMEOUT") == timeout_of(capsys, *named)
    monkeypatch.delenv("FORGEPACK_VERIFY_TIMEOUT")
    assert ("30.0", "forgepack.toml: verify.timeout") == timeout_of(capsys, *named)
    assert timeout_of(capsys, "--isolated", *named) is None
    config.unlink()
    assert timeout_of(capsys, *named) is None


def test_profile_comes_from_variable_or_file(
    here: Path, base: Path, released: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The short FORGEPACK_PROFILE serves every command, as the key at the top does."""
    (here / "forgepack.toml").write_text('profile = "mini"\n')
    args = ["verify", "--bundle", str(released), "--depth", "header"]
    assert 1 == run(args)
    assert "profile mini" in capsys.readouterr().out
    monkeypatch.setenv("FORGEPACK_PROFILE", str(base / "profile.json"))
    assert 0 == run(args)
    shown = capsys.readouterr().out
    assert "profile tiny" in shown
    assert f"option profile = {base / 'profile.json'} (from variable FORGEPACK_PROFILE)" in shown


def test_variable_that_nothing_reads_is_told(
    released: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typing error in a variable's name is a note with the closest one, on stderr."""
    monkeypatch.setenv("FORGEPACK_VERIFY_DEPHT", "hash")
    profile = str(base / "profile.json")
    assert 0 == run(["verify", "--bundle", str(released), "--profile", profile, "--depth", "header"])
    assert "did you mean FORGEPACK_VERIFY_DEPTH?" in capsys.readouterr().err


def test_help_needs_no_good_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Help, and commands that read nothing, work beside a damaged configuration; others exit with 2."""
    (here / "forgepack.toml").write_text("nonsense")
    assert 0 == run(["verify", "--help"])
    assert 0 == run(["rules"])
    assert 2 == run(["verify", "--bundle", "x"])
    assert 2 == run(["--isolated", "--config", "x.toml", "verify", "--bundle", "x"])
    assert "next: leave one of them out" in capsys.readouterr().err


def test_schema_is_made_of_the_options() -> None:
    """The schema is what the options give; python -m tests.release.config_schema writes it again."""
    assert config_schema() == json.loads(SCHEMA.read_bytes())


def test_schema_takes_a_recipe_and_refuses_a_typo() -> None:
    """An editor with the schema says what the tool says."""
    recipe = {"profile": "mini", "traces": "t.npz", "verify": {"depth": "run"}, "quantize": {"threads": 2}}
    assert () == schema_faults(recipe, "forgepack_toml")
    assert () != schema_faults({"trace": "t.npz"}, "forgepack_toml")
    assert () != schema_faults({"verify": {"depth": "deep"}}, "forgepack_toml")
