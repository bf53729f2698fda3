"""Where an output may stand: every command that writes a folder refuses what would take something along."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from forgepack.cli.main import run
from forgepack.disk.places import check_file, check_folder, same_place
from forgepack.disk.records import look_into
from forgepack.errors import UsageError
from tests.hub.bench import tree_of
from tests.release.bench import UPSTREAM
from tests.verify.conftest import build_pair
from tests.verify.factory import tiny_profile

PREVIEW = ("--dry-run", None)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the tiny pair; it is never changed."""
    return build_pair(tmp_path_factory.mktemp("places") / "pair", tiny_profile())


@pytest.fixture
def pair(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the pair beside a folder of somebody's, which is the working folder."""
    root = Path(shutil.copytree(base, tmp_path / "pair"))
    (tmp_path / "keep/below").mkdir(parents=True)
    (tmp_path / "keep/notes.txt").write_text("thesis")
    monkeypatch.chdir(tmp_path / "keep")
    monkeypatch.delenv("FORGEPACK_PROFILE", raising=False)
    return root


def commands(pair: Path, out: str) -> dict[str, list[str]]:
    """Return a command line of each command that writes a folder."""
    named = ["--target", str(pair / "target"), "--profile", str(pair / "profile.json"), "--out", out, "--force"]
    checkpoint = str(pair / "checkpoint")
    upstream = ["--upstream-id", UPSTREAM.id, "--upstream-revision", UPSTREAM.revision]
    profile = ["--profile", str(pair / "profile.json"), "--out", out, "--force"]
    return {
        "bundle": ["bundle", str(pair / "drafter"), *named, *upstream],
        "emit": ["emit", str(pair / "quant"), "--checkpoint", checkpoint, *named],
        "quantize": ["quantize", checkpoint, "--traces", str(pair / "profile.json"), *named],
        "fetch": ["fetch", "--adopt", checkpoint, *profile],
    }


GROUND = [".", "..", "below/..", "../keep", "../keep/../../{parent}", "/", "~"]


@pytest.mark.parametrize("dry", [False, True], ids=["real", "dry"])
@pytest.mark.parametrize("out", GROUND)
@pytest.mark.parametrize("command", ["bundle", "emit", "quantize", "fetch"])
def test_nobodys_ground_is_replaced(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, command: str, dry: bool
) -> None:
    """The working folder, one above it, the root and home, however they are named: exit 2, nothing is touched."""
    monkeypatch.setenv("HOME", str(tmp_path / "pair"))
    out = str(Path(out).expanduser()) if out == "~" else out.format(parent=tmp_path.name)
    before = tree_of(tmp_path)
    assert 2 == run([*commands(pair, out)[command], *(["--dry-run"] if dry else [])])
    assert before == tree_of(tmp_path)
    assert [] == list(tmp_path.glob(".*"))


@pytest.mark.parametrize("through", ["named", "by a link", "in a parent that is a link"])
@pytest.mark.parametrize(
    ("command", "out"),
    [
        ("emit", "checkpoint"),
        ("emit", "target/export"),
        ("emit", "target/new"),
        ("emit", "quant/new"),
        ("emit", ""),
        ("bundle", "drafter"),
        ("bundle", "drafter/new"),
        ("bundle", "target"),
        ("quantize", "checkpoint"),
        ("quantize", "checkpoint/q"),
        ("fetch", "checkpoint"),
        ("fetch", "checkpoint/copy"),
    ],
)
def test_no_input_is_replaced(pair: Path, tmp_path: Path, command: str, out: str, through: str) -> None:
    """What is, holds or lies inside an input is refused, by any name: exit 2, every byte stays."""
    place = pair / out
    if through == "by a link":
        (tmp_path / "link").symlink_to(place)
        place = tmp_path / "link"
    elif through == "in a parent that is a link":
        (tmp_path / "link").symlink_to(place.parent)
        place = tmp_path / "link" / place.name
    before = tree_of(tmp_path)
    assert 2 == run(commands(pair, str(place))[command])
    assert before == tree_of(tmp_path)


def test_a_folder_that_an_inputs_links_lead_into_is_kept(pair: Path, tmp_path: Path) -> None:
    """An input whose files are links into an older output reads that output: it may not be replaced by it."""
    assert 0 == run(["-q", *commands(pair, str(tmp_path / "old"))["bundle"]])
    head = next((pair / "target/export").rglob("lm_head.safetensors"))
    head.unlink()
    head.symlink_to(tmp_path / "old" / head.relative_to(pair / "target"))
    before = tree_of(tmp_path)
    assert 2 == run([*commands(pair, str(tmp_path / "old"))["bundle"], "--allow-links"])
    assert before == tree_of(tmp_path)


FOREIGN = ["notes.txt", ".hidden", "drafter/thesis.tex", "new/folder/file", ".git/HEAD", ".gitattributes", "empty/"]


@pytest.mark.parametrize("dry", [False, True], ids=["real", "dry"])
@pytest.mark.parametrize("name", [*FOREIGN, "link"])
def test_one_foreign_file_keeps_a_folder(
    pair: Path, tmp_path: Path, name: str, dry: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """--force replaces a release; with one file that its record does not list, that file is named and all stays."""
    line, out = commands(pair, str(tmp_path / "out"))["bundle"], tmp_path / "out"
    assert 0 == run(["-q", *line])
    if name.endswith("/"):
        (out / name).mkdir()
    elif name == "link":
        (out / name).symlink_to("README.md")
    else:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("mine")
    before = tree_of(tmp_path)
    capsys.readouterr()
    assert 2 == run([*line, *(["--dry-run"] if dry else [])])
    assert name.partition("/")[0] in capsys.readouterr().err
    assert before == tree_of(tmp_path)


@pytest.mark.parametrize("command", ["bundle", "emit"])
def test_what_somebody_edited_keeps_a_folder(
    pair: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A listed file with another content, of another size or the same, is somebody's work: named, and all stays."""
    line, out = commands(pair, str(tmp_path / "out"))[command], tmp_path / "out"
    shutil.copytree(pair / "drafter", out)
    if command == "bundle":
        shutil.rmtree(out)
        assert 0 == run(["-q", *line])
    text = (out / "LICENSE").read_bytes()
    for edited in (text + b"my notes", text[:-1] + b"x"):
        (out / "LICENSE").write_bytes(edited)
        before = tree_of(tmp_path)
        capsys.readouterr()
        assert 2 == run(line)
        assert "LICENSE" in capsys.readouterr().err
        assert before == tree_of(tmp_path)


FORGED: dict[str, dict[str, object]] = {
    "release": {
        "forgepack.json": {"schema": "forgepack.release/1"},
        "release.json": {"files": [{"path": name} for name in ("thesis", "../victim", "/victim", "", ".", "..")]},
    },
    "quant": {"report.json": {"schema": "forgepack.quant_report/2", "output": {"file": "thesis"}}},
    "package": {"x.json": {"forgepack": {"schema": "forgepack.sidecar/2", "package": {"files": {"thesis": {}}}}}},
    "checkpoint": {
        "checkpoint.lock.json": {
            "schema": "forgepack.checkpoint-lock/1",
            "files": [{"path": "thesis", "bytes": 4, "sha256": "0" * 64}, {"path": "../victim", "bytes": 4}],
        }
    },
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_folder_that_only_looks_like_ours_is_kept(pair: Path, tmp_path: Path, kind: str) -> None:
    """A record that lists somebody's file without its content, and names that lead outside, replace nothing."""
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "victim").write_text("dear")
    (out / "thesis").write_text("mine")
    for name, raw in FORGED[kind].items():
        (out / name).write_text(json.dumps(raw))
    before = tree_of(tmp_path)
    assert 2 == run(commands(pair, str(out))["bundle"])
    assert before == tree_of(tmp_path)


def test_what_tools_drop_goes_with_the_folder_and_is_told(
    pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file manager's and a hub client's own files are of no value: replaced, and named, in the dry run too."""
    line, out = commands(pair, str(tmp_path / "out"))["bundle"], tmp_path / "out"
    assert 0 == run(["-q", *line])
    (out / ".DS_Store").write_bytes(b"x")
    (out / "model/._config.json").write_bytes(b"x")
    (out / ".cache/huggingface/upload").mkdir(parents=True)
    for more in (["--dry-run"], []):
        capsys.readouterr()
        assert 0 == run([*line, *more])
        err = capsys.readouterr().err
        assert "replaces" in err
        assert ".DS_Store" in err
        assert "model/._config.json" in err
    assert not (out / ".DS_Store").exists()


def test_a_folder_without_a_record_is_never_replaced(pair: Path, tmp_path: Path) -> None:
    """Without a record every file is foreign; an empty folder holds nothing to lose."""
    (tmp_path / "mine").mkdir()
    assert 0 == run(["-q", *commands(pair, str(tmp_path / "mine"))["bundle"]])
    (tmp_path / "mine/release.json").unlink()
    (tmp_path / "mine/forgepack.json").unlink()
    before = tree_of(tmp_path / "mine")
    assert 2 == run(commands(pair, str(tmp_path / "mine"))["bundle"])
    assert before == tree_of(tmp_path / "mine")


def test_each_kind_of_folder_has_its_record(pair: Path) -> None:
    """Checkpoint, QUANT and package list all of their files, and name the command that makes them."""
    for name, command in (("checkpoint", "fetch"), ("quant", "quantize"), ("drafter", "emit")):
        contents = look_into(pair / name)
        assert contents.record is not None
        assert ((), f"forgepack {command}") == (contents.foreign, contents.record.command)
        assert set(contents.files) == set(tree_of(pair / name))


def test_mounts_are_refused() -> None:
    """A file system's own root is never replaced, force or not."""
    mounts = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()]
    place = next((one for one in mounts if one != Path("/") and one.is_dir() and os.path.ismount(one)), None)
    if place is None:
        pytest.skip("nothing is mounted here")
    with pytest.raises(UsageError) as caught:
        check_folder(place, force=True, inputs={})
    assert "place" == caught.value.code


def test_a_file_is_judged_like_a_folder(tmp_path: Path) -> None:
    """An input by any name, a folder, a link and a socket are refused; an empty file is nobody's."""
    (tmp_path / "input").mkdir()
    (tmp_path / "input/a").write_text("a")
    (tmp_path / "hard").hardlink_to(tmp_path / "input/a")
    (tmp_path / "lnk").symlink_to("input")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "empty").touch()
    inputs = {"input": tmp_path / "input", "a": tmp_path / "input/a"}
    for name in ("input", "input/a", "input/new", "lnk", "lnk/new", "lnk/a", "dangling", "hard", "no/new"):
        with pytest.raises(UsageError):
            check_file(tmp_path / name, force=True, inputs=inputs)
    check_file(tmp_path / "empty", force=False, inputs=inputs)
    check_file(tmp_path / "new", force=False, inputs=inputs)
    assert same_place(tmp_path / "lnk/new", tmp_path / "input/new")
