"""Where an output may be: never where it would replace an input, a foreign file, a home or the working folder.

Places are compared by device and inode, so links, bind mounts and letters' case change nothing. ``--force`` replaces
only what this tool made: a folder whose every file its own record lists.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forgepack.disk.failures import writing
from forgepack.disk.records import Contents, look_into, read_record
from forgepack.errors import ForgepackError, InputError, OutputError, UsageError

Inputs = Mapping[str, Path | None]
_Id = tuple[int, int]
_SHOWN = 5
_MOST_LINKS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A folder that a run will replace; ``dropped`` are files of no value that go with it."""

    path: Path
    what: str
    files: tuple[str, ...]
    dropped: tuple[str, ...]

    @property
    def text(self) -> str:
        """One line that names what goes."""
        also = f", and with it {_listed(self.dropped)}" if self.dropped else ""
        return f"replaces {self.path}: {self.what}, {len(self.files)} files{also}"


def aside_folder(out: Path) -> Path:
    """Return the hidden folder beside ``out`` where an old one waits while the new one takes its place."""
    return out.parent / f".{out.name}.old"


def work_folder(out: Path) -> Path:
    """Return the hidden folder beside ``out`` in which it is built."""
    return out.parent / f".{out.name}.work"


def check_folder(out: Path, *, force: bool, inputs: Inputs, exact: bool = False) -> Replaced | None:
    """Raise UsageError where a folder may not be written to ``out``; return what would be replaced, if anything.

    With ``exact`` the files that would be replaced must be as their record lists them: edited ones are somebody's
    work. A build makes its own damaged results again, so it asks for names alone.

    A run that was killed between setting the old folder aside and putting the new one in is mended by the next one:
    what it set aside counts as standing at ``out``.
    """
    with writing(out):
        check_ground(out)
        _check_parent(out)
        check_inputs(out, inputs)
        for place in (out, aside_folder(out)):
            _check_kind(place)
    standing = next((place for place in (out, aside_folder(out)) if os.path.lexists(place)), None)
    if standing is None:
        return None
    if not force:
        raise UsageError("the output exists", where=str(standing), hint="choose another folder, or give --force")
    contents = _look_into(standing, exact=exact)
    _refuse_foreign(standing, contents)
    _refuse_changed(standing, contents)
    what = "an empty folder" if contents.record is None else contents.record.what
    return Replaced(path=standing, what=what, files=contents.files, dropped=contents.dropped)


def check_ground(out: Path) -> None:
    """Raise UsageError for a folder that nothing may replace: ``.``, ``..``, the working one or above it, home."""
    if out.name in ("", ".."):
        raise _refused(out, "it has no name of its own", expected="a folder with a name, not . or .. or /")
    with suppress(OSError):  # a working folder that is gone holds nothing
        if _holds(out, Path.cwd()):
            raise _refused(out, "it is the working folder or holds it")
    if any(_holds(out, home) for home in _homes()):
        raise _refused(out, "it is a home folder or holds one")
    if os.path.ismount(out):
        raise _refused(out, "a file system is mounted there", hint="name a new folder in it")


def check_inputs(out: Path, inputs: Inputs, *, holding: bool = True) -> None:
    """Raise UsageError where ``out`` is an input or is inside one, or, with ``holding``, where it holds one."""
    for role, path in inputs.items():
        if path is None or _id(path) is None:
            continue
        if _holds(path, out):
            found = f"it is {'' if _same(path, out) else 'inside '}{role}: {path}"
            raise _refused(out, found, expected="a place outside of every input")
        if holding and out.is_dir() and any(_holds(out, one) for one in (path, *_led_to(path))):
            raise _refused(out, f"it holds {role}: {path}")


def check_file(
    path: Path, *, force: bool, inputs: Inputs, ours: Callable[[Path], bool] = lambda _: False, what: str = "output"
) -> None:
    """Raise UsageError where a single file may not be written to ``path``.

    A device, a pipe or an open descriptor is written through. A link to anything else is refused, as is an
    input and any place inside one. A file that is there needs ``force``, unless it is empty or ``ours`` recognizes it
    as one of this tool's of the same form.
    """
    with writing(path), suppress(FileNotFoundError, NotADirectoryError):
        path.lstat()  # what can't be looked at, or is named too long, can't be written either
    if is_through(path):
        return
    if path.is_symlink():
        found = f"a link to {path.readlink()}"
        raise UsageError(f"the {what} is a link", where=str(path), found=found, hint="name the file that it leads to")
    if path.is_dir():
        raise UsageError(f"the {what} is a folder", where=str(path), hint="name a file")
    _check_parent(path)
    check_inputs(path, inputs, holding=False)
    if not path.exists():
        return
    if not path.is_file():
        raise UsageError(f"the {what} is not a regular file", where=str(path), hint="name a file, a pipe or a device")
    if not force and path.stat().st_size and not ours(path):
        raise UsageError(f"the {what} exists", where=str(path), hint="choose another file, or give --force")


def _look_into(folder: Path, *, exact: bool = False) -> Contents:
    try:
        return look_into(folder, exact=exact)
    except InputError as err:
        what = "the folder that would be replaced can't be read"
        raise OutputError(what, where=err.where, found=err.found or err.what, code="not-writable") from err


def refuse_one_place(*paths: Path | None) -> None:
    """Raise UsageError where two outputs are one file; what is written through may be named twice."""
    named = [path for path in paths if path is not None and not is_through(path)]
    for number, path in enumerate(named):
        if any(same_place(path, other) for other in named[:number]):
            raise UsageError("two outputs are one file", where=str(path), hint="name a file for each")


def is_through(path: Path) -> bool:
    """Say whether writing goes through ``path``: a character device, a pipe, or a descriptor such as /dev/stdout."""
    with suppress(OSError):
        mode = path.stat().st_mode
        return descriptor_of(path) is not None or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
    return False


def descriptor_of(path: Path) -> int | None:
    """Return the descriptor that a name such as /dev/stdout or /dev/fd/3 stands for, or None."""
    named = {"/dev/stdout": 1, "/dev/stderr": 2}
    folder, name = str(path.parent), path.name
    if folder in ("/dev/fd", "/proc/self/fd") and name.isdecimal():
        return int(name)
    return named.get(str(path))


def same_place(left: Path, right: Path) -> bool:
    """Say whether two paths are one file, there or not."""
    return os.path.realpath(left) == os.path.realpath(right) or _same(left, right)


def lies_in(path: Path, folder: Path) -> bool:
    """Say whether a path is a folder or is inside it, there or not."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)) or _holds(folder, path)


def interrupted(out: Path) -> UsageError | None:
    """Return what to say of a missing folder whose replacement was killed in between: both halves, and the cure."""
    old, new, record = aside_folder(out), new_folder(out), None
    if os.path.lexists(out) or not old.is_dir():
        return None
    with suppress(ForgepackError, OSError):
        record = read_record(old)
    command = "the same command" if record is None else f"the same {record.command}"
    back = f"mv {shlex.quote(str(old))} {shlex.quote(str(out))} puts the old one back"
    return UsageError(
        "the folder is missing: its replacement was interrupted",
        where=str(out),
        found=f"the old one at {old}, the new one at {new if new.is_dir() else 'no place: it is gone'}",
        hint=f"run {command} again, which mends it; or {back}",
        code="half-replaced",
    )


def new_folder(out: Path) -> Path:
    """Return where a finished folder waits to take the place ``out``."""
    return work_folder(out) / "new"


def refuse_foreign_files(folder: Path) -> None:
    """Raise UsageError that names a file which no record of this tool lists."""
    _refuse_foreign(folder, _look_into(folder))


def _refuse_foreign(folder: Path, contents: Contents) -> None:
    if contents.foreign:
        what = "no record of forgepack" if contents.record is None else f"its record as {contents.record.what}"
        raise UsageError(
            "the folder holds what forgepack did not write",
            where=str(folder / contents.foreign[0]),
            expected=f"only files that {what} lists"
            if contents.record
            else "a folder that forgepack made, or an empty one",
            found=f"{_listed(contents.foreign)}: {what} lists it",
            hint="move it away if it is of value, or name another --out; --force replaces only what forgepack made",
            code="foreign",
        )


def _refuse_changed(folder: Path, contents: Contents) -> None:
    if contents.changed and contents.record is not None:
        raise UsageError(
            "the folder holds files that are not as forgepack wrote them",
            where=str(folder / contents.changed[0]),
            expected=f"the size and sha256 that its record as {contents.record.what} lists",
            found=f"another content: {_listed(contents.changed)}",
            hint="move the folder away if it is of value, else remove it; or name another --out",
            code="changed",
        )


def _listed(names: Iterable[str]) -> str:
    names = tuple(names)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _check_parent(out: Path) -> None:
    with writing(out):
        if not out.parent.is_dir():
            hint = f"mkdir -p {shlex.quote(str(out.parent))}, or choose another place"
            raise UsageError("the output's parent folder does not exist", where=str(out.parent), hint=hint)


def _check_kind(out: Path) -> None:
    if out.is_symlink():
        found = f"a link to {out.readlink()}"
        raise UsageError("the output is a link", where=str(out), found=found, hint="name the folder that it leads to")
    if out.exists() and not out.is_dir():
        raise UsageError("a file is where the output folder must be", where=str(out), hint="name another folder")


def _refused(
    out: Path, why: str, *, expected: str | None = None, hint: str = "name a new place elsewhere"
) -> UsageError:
    return UsageError(
        "nothing may be written there", where=str(out), expected=expected, found=why, hint=hint, code="place"
    )


def _homes() -> Iterator[Path]:
    with suppress(KeyError):
        yield Path(pwd.getpwuid(os.getuid()).pw_dir)
    with suppress(RuntimeError):
        yield Path.home()


def _id(path: Path) -> _Id | None:
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def _same(left: Path, right: Path) -> bool:
    found = _id(left)
    return found is not None and found == _id(right)


def _holds(folder: Path, path: Path) -> bool:
    """Say whether ``folder`` is ``path`` or a folder above it, all links resolved; ``path`` need not be there."""
    wanted = _id(folder)
    real = Path(os.path.realpath(path))
    return wanted is not None and any(_id(place) == wanted for place in (real, *real.parents))


def _led_to(folder: Path) -> Iterator[Path]:
    """Yield where the links below an input folder lead: a hub's cache holds its files elsewhere."""
    pending, count = [folder] if folder.is_dir() else [], 0
    while pending:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                count += 1
                if entry.is_symlink():
                    yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False) and count < _MOST_LINKS:
                    pending.append(Path(entry.path))
