"""Publishing a folder: old state or new, never a half."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgepack import staging
from forgepack.errors import OutputError, UsageError
from forgepack.staging import locked_work, publish, remove_work, work_folder, write_file


def build(work: Path, text: str) -> Path:
    staged = work / "out"
    staged.mkdir()
    write_file(staged / "a", text.encode())
    return staged


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    """A new folder takes an old one's place, with the system's exchange and without; nothing is left beside it."""
    if not can_exchange:
        monkeypatch.setattr(staging, "_exchange", lambda *_: False)
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


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    """With force a link gives way; what it pointed to stays."""
    (tmp_path / "other").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "other")
    with locked_work(tmp_path / "out", force=True) as work:
        publish(build(work, "new"), tmp_path / "out")
    assert not (tmp_path / "out").is_symlink()
    assert [] == list((tmp_path / "other").iterdir())


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
