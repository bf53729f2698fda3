"""Publishing a folder: old state or new, never a half."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgepack.canonical import dump_canonical
from forgepack.disk import folders
from forgepack.disk.files import write_file, write_new
from forgepack.disk.folders import fresh_folder, locked_work, publish, remove_work
from forgepack.disk.places import aside_folder, new_folder, work_folder
from forgepack.errors import OutputError, UsageError


def build(work: Path, text: str) -> Path:
    return fill(fresh_folder(work / "out"), text)


def fill(folder: Path, text: str) -> Path:
    """Write a folder that is ours by its own record."""
    folder.mkdir(exist_ok=True)
    write_new(folder / "a", text.encode())
    write_new(folder / "report.json", dump_canonical({"schema": "forgepack.quant_report/2", "output": {"file": "a"}}))
    return folder


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    """A new folder takes an old one's place, with the system's exchange and without; nothing is left beside it."""
    if not can_exchange:
        monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    out = tmp_path / "out"
    for text in ("old", "new"):
        with locked_work(out, force=True) as work:
            publish(build(work, text), out)
            remove_work(work)
        assert text == (out / "a").read_text()
    assert ["out"] == [p.name for p in tmp_path.iterdir()]


def test_an_existing_output_needs_force(tmp_path: Path) -> None:
    """Without force the run ends before anything is made."""
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="--force"), locked_work(tmp_path / "out", force=False):
        pass
    assert not work_folder(tmp_path / "out").exists()


def test_a_dangling_link_is_an_existing_output(tmp_path: Path) -> None:
    """A link is never written through."""
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError), locked_work(tmp_path / "out", force=False):
        pass


def test_a_link_is_never_replaced(tmp_path: Path) -> None:
    """With force neither: what it leads to may be named."""
    (tmp_path / "other").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "other")
    with pytest.raises(UsageError, match="is a link"), locked_work(tmp_path / "out", force=True):
        pass
    assert (tmp_path / "out").is_symlink()


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    """Two runs never write one output."""
    out = tmp_path / "out"
    with locked_work(out, force=False), pytest.raises(UsageError, match="another run"), locked_work(out, force=False):
        pass
    with locked_work(out, force=False) as work:
        assert work.is_dir()


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    """The parent folder is not made up."""
    with pytest.raises(UsageError, match="parent"), locked_work(tmp_path / "no" / "out", force=False):
        pass


def test_a_failed_write_is_an_output_error(tmp_path: Path) -> None:
    """A folder in a file's place ends in exit code 5 and leaves no file behind."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("x")
    with pytest.raises(OutputError) as caught:
        write_file(tmp_path / "a", b"data")
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("moment", ["new waits", "old aside", "new in", "old half removed"])
def test_a_replacement_that_was_killed_is_mended(tmp_path: Path, moment: str) -> None:
    """Whatever the moment, the next run finds the old or the new folder in the place, and nothing beside it."""
    out = fill(tmp_path / "out", "old")
    work_folder(out).mkdir()
    (work_folder(out) / "lock").touch()
    new, old, gone = new_folder(out), aside_folder(out), work_folder(out) / "gone"
    fill(new, "new")
    if moment != "new waits":
        out.rename(old)
    if moment in ("new in", "old half removed"):
        new.rename(out)
    if moment == "old half removed":
        old.rename(gone)
        (gone / "report.json").unlink()
    with locked_work(out, force=True) as work:
        assert ("old" if moment in ("new waits", "old aside") else "new") == (out / "a").read_text()
        remove_work(work)
    assert ["out"] == [p.name for p in tmp_path.iterdir()]


def test_without_force_the_old_folder_that_waits_is_an_output(tmp_path: Path) -> None:
    """A run that may not replace anything leaves both halves for one that may."""
    out = tmp_path / "out"
    fill(aside_folder(out), "old")
    with pytest.raises(UsageError, match="the output exists"), locked_work(out, force=False):
        pass
    assert "old" == (aside_folder(out) / "a").read_text()


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_file_that_comes_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    """Put into the old folder while the new one is built, it waits aside with all of the old folder."""
    if not can_exchange:
        monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    out = fill(tmp_path / "out", "old")
    with locked_work(out, force=True) as work:
        staged = build(work, "new")
        (out / "thesis").write_text("mine")
        with pytest.raises(UsageError, match="did not write") as caught:
            publish(staged, out)
    assert str(aside_folder(out)) == caught.value.where
    assert ("new", "mine") == ((out / "a").read_text(), (aside_folder(out) / "thesis").read_text())


def test_somebody_elses_folder_is_no_work_folder(tmp_path: Path) -> None:
    """A folder of the hidden name that no run has locked is left alone, and so is a link."""
    out = tmp_path / "out"
    work_folder(out).mkdir()
    (work_folder(out) / "mine").write_text("mine")
    with pytest.raises(UsageError, match="not forgepack's"), locked_work(out, force=False):
        pass
    assert "mine" == (work_folder(out) / "mine").read_text()
    (tmp_path / "b").mkdir()
    (tmp_path / ".c.work").symlink_to("b")
    with pytest.raises(OutputError, match="a link"), locked_work(tmp_path / "c", force=False):
        pass


def test_room_is_asked_for_first(tmp_path: Path) -> None:
    """More than the disk has ends before anything is written; what an earlier run left counts as room."""
    with (
        pytest.raises(OutputError, match="too little space"),
        locked_work(tmp_path / "out", force=False, needed=1 << 60),
    ):
        pass
    assert [] == list(tmp_path.iterdir())
