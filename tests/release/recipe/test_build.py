"""One recipe on the miniature: made once, then up to date; rebuilt where an input changed; held to its lock."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forgepack.cli.main import run
from forgepack.miniature.data import find_miniature
from forgepack.profile import load_profile
from forgepack.schema_check import schema_faults
from tests.hub.bench import tree_of
from tests.hub.conftest import client_home  # noqa: F401  (an autouse fixture: nothing of this machine's settings)
from tests.hub.loopback import LoopbackHub
from tests.release.bench import edit, read_json

STEPS = ("fetch", "quantize", "emit", "verify", "bundle")
Outcomes = dict[str, str]


def recipe(more: str = "") -> str:
    """Return the miniature's forgepack.toml; its target and traces are copied beside it."""
    keys = {"profile": "mini", "checkpoint": "checkpoint", "traces": "calib.npz", "held-out": "heldout.npz"}
    keys |= {"target": "target", "output": "release"}
    lines = [f'{key} = "{value}"' for key, value in keys.items()]
    return "\n".join([*lines, "[quantize]", "threads = 1", "[verify]", 'depth = "lineage"', more, ""])


def prepare(root: Path) -> None:
    """Write recipe, target and traces of the miniature into a folder."""
    mini = find_miniature()
    root.mkdir()
    shutil.copytree(mini.target, root / "target")
    shutil.copyfile(mini.calibration, root / "calib.npz")
    shutil.copyfile(mini.held_out, root / "heldout.npz")
    (root / "forgepack.toml").write_text(recipe())


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the miniature's release once, its checkpoint fetched from a hub on loopback."""
    root = tmp_path_factory.mktemp("built") / "project"
    prepare(root)
    pin = load_profile("mini").hub
    with (
        pytest.MonkeyPatch.context() as patch,
        LoopbackHub.serve({pin.repo: {pin.commit: find_miniature().checkpoint}}) as hub,
    ):
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setenv("HF_TOKEN", "")
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.delenv("FORGEPACK_PROFILE", raising=False)
        patch.chdir(root)
        assert 0 == run(["-q", "build"])
    return root


@pytest.fixture
def project(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the built project, in which the commands run; no hub is there."""
    root = Path(shutil.copytree(made, tmp_path / "project"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("FORGEPACK_PROFILE", raising=False)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def build(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcomes]:
    """Return a function that builds and returns each step's outcome."""

    def call(*args: str) -> Outcomes:
        assert 0 == run(["-q", "build", "--json", *args])
        outcomes: Outcomes = json.loads(capsys.readouterr().out)["steps"]
        assert list(STEPS) == sorted(outcomes, key=STEPS.index)
        return outcomes

    return call


def expected(*rebuilt: str) -> Outcomes:
    """Return the outcomes when only some steps were made again."""
    return {step: "made" if step in rebuilt else "up to date" for step in STEPS}


def test_release_is_complete_and_verified(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is a release that passes with the recipe's own profile."""
    monkeypatch.chdir(made)
    assert 0 == run(["verify", "--bundle", "release", "--depth", "hash"])
    assert {"checkpoint", "work", "release", "forgepack.lock"} <= {p.name for p in made.iterdir()}


def test_second_build_makes_nothing(project: Path, build: Callable[..., Outcomes]) -> None:
    """Without a change no step runs, no file changes, no hub is asked; --locked agrees."""
    before = tree_of(project)
    assert expected() == build()
    assert expected() == build("--locked")
    assert before == tree_of(project)


def test_offline_takes_an_adopted_checkpoint(
    project: Path, build: Callable[..., Outcomes], capsys: pytest.CaptureFixture[str]
) -> None:
    """[fetch] offline builds from a checkpoint that was adopted; without it the hub is asked."""
    shutil.rmtree(project / "checkpoint")
    (project / "forgepack.toml").write_text(recipe("[fetch]\noffline = true"))
    assert 2 == run(["-q", "build"])
    assert "no such folder" in capsys.readouterr().err
    adopted = str(find_miniature().checkpoint)
    assert 0 == run(["-q", "--isolated", "fetch", "--profile", "mini", "--adopt", adopted, "--out", "checkpoint"])
    capsys.readouterr()
    assert "up to date" == build()["fetch"]
    (project / "forgepack.toml").write_text(recipe("[fetch]\ntimeout = 0.1"))
    assert 6 == run(["-q", "build"])


def test_lock_follows_its_schema_and_tells_no_path(project: Path) -> None:
    """The lock has every input's digest and nothing of the machine."""
    lock = read_json(project / "forgepack.lock")
    assert () == schema_faults(lock, "build_lock")
    inputs = {"checkpoint", "documents", "given", "held_out", "options", "profile", "target", "traces"}
    assert inputs == set(lock["inputs"])
    assert lock["inputs"]["given"] is None
    assert {"quantize", "emit", "verify", "bundle"} == set(lock["steps"])
    assert str(project.parent) not in (project / "forgepack.lock").read_text()


@pytest.mark.parametrize(
    ("change", "rebuilt"),
    [
        (lambda root: (root / "forgepack.toml").write_text(recipe("strict = true")), ("verify",)),
        (lambda root: (root / "target/NOTICE").write_text("Made by us.\n"), ("bundle",)),
        (lambda root: (root / "forgepack.toml").write_text(recipe("[bundle]\nexport = false")), ("bundle",)),
        (lambda root: shutil.rmtree(root / "release"), ("bundle",)),
        (lambda root: (root / "release/NOTICE").write_text("edited"), ("bundle",)),
        (lambda root: shutil.rmtree(root / "work/verify"), ("verify",)),
        (lambda root: (root / "work/drafter/NOTICE").unlink(), ("emit",)),
    ],
    ids=["strict", "notice", "export", "no_release", "edited_release", "no_report", "damaged_package"],
)
def test_only_what_depends_on_a_change_is_made_again(
    project: Path, build: Callable[..., Outcomes], change: Callable[[Path], object], rebuilt: tuple[str, ...]
) -> None:
    """A changed input or a damaged result is made again, with what depends on it; then all is up to date."""
    change(project)
    assert expected(*rebuilt) == build()
    assert expected() == build("--locked")


def test_equal_inputs_give_the_locked_release(project: Path, build: Callable[..., Outcomes]) -> None:
    """With everything that was made removed, --locked makes the same bytes again."""
    before = tree_of(project)
    shutil.rmtree(project / "work")
    shutil.rmtree(project / "release")
    assert expected("quantize", "emit", "verify", "bundle") == build("--locked")
    assert before == tree_of(project)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda root: (root / "target/NOTICE").write_text("new"), "documents.target/NOTICE"),
        (lambda root: (root / "forgepack.toml").write_text(recipe("strict = true")), "options.verify.strict"),
        (lambda root: shutil.copyfile(root / "calib.npz", root / "heldout.npz"), "held_out.sha256"),
        (
            lambda root: edit(root / "target/model/tokenizer_config.json", lambda raw: raw.update(x=1)),
            "target.model/",
        ),
        (lambda root: edit(root / "forgepack.lock", lambda raw: raw["tool"].update(version="0.0.9")), "tool.version"),
        (
            lambda root: edit(root / "forgepack.lock", lambda raw: raw["inputs"]["traces"].update(sha256="0" * 64)),
            "traces.sha256",
        ),
    ],
    ids=["document", "option", "traces", "target", "tool", "lock"],
)
def test_locked_refuses_drift_of_inputs(
    project: Path, change: Callable[[Path], object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever differs from the lock is listed, exit 4, and nothing is made or locked anew."""
    change(project)
    before = tree_of(project)
    assert 4 == run(["-q", "build", "--locked"])
    error = capsys.readouterr().err
    assert "not what the lock records" in error
    assert words in error
    assert before == tree_of(project)


def test_locked_refuses_other_results(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs as locked and a package that comes out otherwise: refused by the step that made it."""

    def other(lock: dict[str, Any]) -> None:
        lock["steps"]["emit"]["files"]["NOTICE"]["sha256"] = "0" * 64

    edit(project / "forgepack.lock", other)
    assert 4 == run(["-q", "build", "--locked"])
    assert "what emit makes is not what the lock records" in capsys.readouterr().err


def test_locked_needs_a_lock(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a lock there is nothing to hold to: usage."""
    (project / "forgepack.lock").unlink()
    assert 2 == run(["-q", "build", "--locked"])
    assert "without --locked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("schema", "forgepack.build_lock/3", "of a newer version"), ("steps", [], "the lock of a build is not valid")],
)
def test_damaged_lock_is_told(
    project: Path, capsys: pytest.CaptureFixture[str], key: str, value: object, words: str
) -> None:
    """A lock of another version or form is an input that can't be used."""
    edit(project / "forgepack.lock", lambda raw: raw.update({key: value}))
    assert 4 == run(["-q", "build"])
    assert words in capsys.readouterr().err


def test_refused_pair_is_not_bundled(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target that the rules refuse ends the build at emit, exit 4 with the rule; release and lock stay."""
    edit(project / "target/coreai/manifest.json", lambda raw: raw["chunks"][0].update(entries=["p64_1k"]))
    release, lock = tree_of(project / "release"), (project / "forgepack.lock").read_bytes()
    assert 4 == run(["build"])
    done = capsys.readouterr()
    assert ("", True) == (done.out, "CTR015" in done.err)
    assert (release, lock) == (tree_of(project / "release"), (project / "forgepack.lock").read_bytes())


def test_foreign_output_is_not_replaced(project: Path, build: Callable[..., Outcomes], capsys: Any) -> None:
    """A folder that no build of this lock made is left alone without --force."""
    shutil.rmtree(project / "release")
    (project / "release").mkdir()
    (project / "release/mine").write_text("mine")
    assert 2 == run(["-q", "build"])
    assert "--force" in capsys.readouterr().err
    assert 2 == run(["-q", "build", "--force"])
    assert "mine" in capsys.readouterr().err
    assert ["mine"] == [p.name for p in (project / "release").iterdir()]
    (project / "release/mine").unlink()
    assert expected("bundle") == build("--force")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (recipe().replace("traces =", "# traces ="), "traces"),
        (recipe().replace('output = "release"', ""), "output"),
        (recipe().replace("calib.npz", "absent.npz"), "absent.npz"),
        (recipe().replace('target = "target"', 'target = "absent"'), "absent"),
        (recipe().replace('profile = "mini"', f'profile = "mini"\ncommit = "{"0" * 40}"'), "commit"),
        (recipe().replace("output", "ouput"), "did you mean output?"),
    ],
    ids=["no_traces", "no_output", "absent_traces", "absent_target", "other_commit", "typo"],
)
def test_recipes_that_can_not_be_built(project: Path, text: str, words: str, capsys: Any) -> None:
    """A recipe that lacks or misspells something is a usage error that names it."""
    (project / "forgepack.toml").write_text(text)
    assert 2 == run(["-q", "build"])
    assert words in capsys.readouterr().err


def test_flags_alone_are_a_recipe(project: Path, build: Callable[..., Outcomes]) -> None:
    """Every key of the recipe is an option: without a file the same release is up to date."""
    (project / "forgepack.toml").unlink()
    named = ["--profile", "mini", "--checkpoint", "checkpoint", "--traces", "calib.npz", "--held-out", "heldout.npz"]
    before = (project / "release/release.json").read_bytes()
    assert expected() == build(*named, "--target", "target", "--output", "release")
    assert before == (project / "release/release.json").read_bytes()


def test_what_a_recipe_accepts_stands_in_lock_and_report(
    project: Path, build: Callable[..., Outcomes], capsys: pytest.CaptureFixture[str]
) -> None:
    """Waivers and withdrawn digests are inputs: by digest in the lock, named in the report, held to by --locked."""
    waiver = {"rule": "LIC006", "subject": "x", "digest": "0" * 64, "reason": "r", "owner": "o"}
    (project / "waivers.json").write_text(json.dumps({"waiver": [{**waiver, "expires": "2999-01-01"}]}))
    (project / "deny.toml").write_text(f'[[deny]]\nsha256 = "{"0" * 64}"\nreason = "r"\n')
    (project / "forgepack.toml").write_text('waivers = "waivers.json"\n' + recipe('deny = ["deny.toml"]'))
    assert expected("verify") == build()
    given = read_json(project / "forgepack.lock")["inputs"]["given"]
    assert {"deny", "waivers"} == set(given)
    report = read_json(project / "work/verify/report.json")
    assert given["waivers"]["sha256"] == report["inputs"]["waivers"]["digests"]["sha256"]
    assert () == schema_faults(report, "report")
    places = {one["name"]: one["place"] for one in report["options"]}
    told = {"deny": "verify.deny", "depth": "verify.depth", "profile": "profile", "waivers": "waivers"}
    assert {name: f"forgepack.toml: {key}" for name, key in told.items()} == places
    assert expected() == build("--locked")
    (project / "deny.toml").write_text(f'[[deny]]\nsha256 = "{"1" * 64}"\nreason = "r"\n')
    assert 4 == run(["-q", "build", "--locked"])
    assert "given.deny" in capsys.readouterr().err


def test_a_recipes_withdrawn_digest_refuses_its_build(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of withdrawn digests below [verify] judges in a build, too."""
    weights = read_json(project / "forgepack.lock")["inputs"]["checkpoint"]["files"]["model.safetensors"]["sha256"]
    (project / "deny.toml").write_text(f'[[deny]]\nsha256 = "{weights}"\nreason = "withdrawn"\n')
    (project / "forgepack.toml").write_text(recipe('deny = ["deny.toml"]'))
    assert 1 == run(["-q", "build"])
    assert "SRC001" in str(read_json(project / "work/verify/report.json")["checks"])
