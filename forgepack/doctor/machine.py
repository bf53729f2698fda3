"""What this machine has of what the tool needs: versions, data files, toolchains, disk, the hub when asked."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepack import __version__
from forgepack.child_environment import child_environment
from forgepack.coreai_backend.availability import require_coreai
from forgepack.disk.temporary import temporary_folder
from forgepack.errors import ForgepackError
from forgepack.profile import load_profile, profile_names
from forgepack.resources import data_folder, schema_names

State = Literal["ok", "missing", "note"]
OLDEST_PYTHON = (3, 11)
FIRST_PYTHON_TOO_NEW = (3, 15)
DISTRIBUTION = "forgepack"
_IMPORT_SECONDS = 120.0
LITTLE_DISK = 10 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that was looked at. ``missing`` is what the tool can't do its whole work without."""

    name: str
    state: State
    found: str
    hint: str = ""


def look_around(folder: Path, *, reach_hub: Callable[[], str] | None = None) -> tuple[Condition, ...]:
    """Return the state of this machine for work in ``folder``; without ``reach_hub`` nothing is asked of a network.

    ``reach_hub`` returns what it reached, or raises a ForgepackError.
    """
    return (
        _python(),
        *_dependencies(),
        _core_ai(),
        _core_ml(),
        *_data(),
        _disk(folder),
        _writable(folder),
        _temporary(),
        _hub(reach_hub),
    )


def _python() -> Condition:
    version = sys.version_info[:2]
    found = f"{sys.version.split()[0]} at {sys.executable}"
    fits = OLDEST_PYTHON <= version < FIRST_PYTHON_TOO_NEW
    hint = "" if fits else "use Python 3.11 to 3.14"
    return Condition(name="python", state="ok" if fits else "missing", found=found, hint=hint)


def _dependencies() -> Iterator[Condition]:
    """Yield each declared dependency that applies here, checked by its declared versions."""
    try:
        from packaging.requirements import Requirement

        declared = importlib.metadata.requires(DISTRIBUTION) or []
    except (importlib.metadata.PackageNotFoundError, ImportError):
        yield Condition(
            name="dependencies", state="note", found=f"forgepack {__version__} runs without being installed"
        )
        return
    for text in sorted(declared):
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield _dependency(wanted.name, str(wanted.specifier), wanted.specifier.contains)


def _dependency(name: str, wanted: str, fits: Callable[..., bool]) -> Condition:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Condition(name=name, state="missing", found="not installed", hint=f"pip install '{name}{wanted}'")
    if fits(version, prereleases=True):
        return Condition(name=name, state="ok", found=version)
    return Condition(name=name, state="missing", found=version, hint=f"pip install '{name}{wanted}'")


def _core_ai() -> Condition:
    """Say whether Core AI's package can be imported; in a child, for a broken one may end its process."""
    try:
        require_coreai()
    except ForgepackError as err:
        return Condition(name="Core AI", state="missing", found=err.found or err.what, hint=err.hint or "")
    return _imported("Core AI", "import coreai.authoring", state="missing", hint="install coreai-core again")


def _core_ml() -> Condition:
    hint = "only for looking into Core ML packages"
    if importlib.util.find_spec("coremltools") is None:
        return Condition(name="Core ML tools", state="note", found="not installed", hint=hint)
    return _imported("Core ML tools", "import coremltools", state="note", hint=hint)


def _imported(name: str, code: str, *, state: State, hint: str) -> Condition:
    command = [sys.executable, "-P", "-c", code]  # nothing of the current folder is imported
    try:
        run = subprocess.run(
            command, capture_output=True, timeout=_IMPORT_SECONDS, check=False, env=child_environment(os.environ)
        )
    except subprocess.TimeoutExpired:
        return Condition(name=name, state=state, found="importing it timed out", hint=hint)
    if run.returncode == 0:
        return Condition(name=name, state="ok", found="can be imported")
    last = run.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return Condition(name=name, state=state, found=f"can't be imported: {last[:200]}", hint=hint)


def _data() -> Iterator[Condition]:
    """Yield whether profiles, schemas and the miniature that ship with the tool are there and can be read."""
    try:
        for name in profile_names():
            load_profile(name)
        yield Condition(name="profiles", state="ok", found=", ".join(profile_names()))
        yield Condition(name="schemas", state="ok", found=f"{len(schema_names())} schemas")
        mini = data_folder("mini")
        wanted = mini / "checkpoint" / "model.safetensors"
        state: State = "ok" if wanted.is_file() else "missing"
        yield Condition(name="miniature", state=state, found=str(mini), hint="" if state == "ok" else "install again")
    except ForgepackError as err:
        yield Condition(name="data files", state="missing", found=err.what, hint="install forgepack again")


def _disk(folder: Path) -> Condition:
    free = shutil.disk_usage(folder).free
    hint = "" if free >= LITTLE_DISK else "a release of the default profile takes more"
    return Condition(name="disk", state="ok" if not hint else "note", found=f"{free:,} bytes free here", hint=hint)


def _writable(folder: Path) -> Condition:
    """Say whether files can be written here: many commands can do without."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as err:
        found = f"this folder can't be written to: {os.strerror(err.errno or 0)}"
        return Condition(name="folder", state="note", found=found, hint="write to another one by --out")
    return Condition(name="folder", state="ok", found="this folder can be written to")


def _temporary() -> Condition:
    """Say whether temporary files can be written: Core AI writes a lowered program, as large as the asset, there."""
    try:
        with temporary_folder() as folder:
            free = shutil.disk_usage(folder).free
            found = f"{folder.parent}, {free:,} bytes free"
    except ForgepackError as err:
        return Condition(name="temporary files", state="missing", found=err.found or err.what, hint=err.hint or "")
    return Condition(name="temporary files", state="ok", found=found)


def _hub(reach_hub: Callable[[], str] | None) -> Condition:
    if reach_hub is None:
        return Condition(name="hub", state="note", found="not asked", hint="forgepack doctor --online asks it")
    try:
        return Condition(name="hub", state="ok", found=reach_hub())
    except ForgepackError as err:
        found = f"{err.what}: {err.found}" if err.found else err.what
        return Condition(name="hub", state="note", found=found, hint=err.hint or "")
