"""Author the drafter's asset in a child process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forgepack.coreai_backend.asset_writer import AssetMetadata
from forgepack.coreai_backend.availability import require_coreai
from forgepack.coreai_backend.constants import payload_bytes
from forgepack.coreai_backend.process import Child, DamagedAssetError, Limits
from forgepack.emit.table import constant_table
from forgepack.errors import ForgepackError, OutputError, PlatformError
from forgepack.geometry import Geometry
from forgepack.profile import Recipe

CHILD = "forgepack.emit.child"
_BASE_MEMORY = 6 << 30
_SPARE_FILE = 1 << 30
_SECONDS = 3600.0
_FULL = ("No space left on device", "File too large", "Read-only file system", "Input/output error")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoredProgram:
    """What was authored: the digest of the program's structure, and where in its file each late constant must go."""

    trace_sha256: str
    places: Mapping[str, int]


class Author:
    """The child that authors one asset. It is started before there is anything to author: starting takes a while."""

    def __init__(self, child: Child, folder: Path, geometry: Geometry, recipe: Recipe) -> None:
        self._child = child
        self._folder = folder
        self._geometry = geometry
        self._recipe = recipe

    def program(self, file: Path, places: Mapping[str, int]) -> AuthoredProgram:
        """Write the drafter's program into the asset's new folder.

        The constants of ``places`` are at these offsets of ``file``; the others are left to be written.
        """
        request = {"command": "build", "geometry": asdict(self._geometry), "recipe": asdict(self._recipe)}
        reply = self._ask({**request, "file": str(file.resolve()), "constants": dict(places)})
        return AuthoredProgram(trace_sha256=reply["trace"], places=reply["places"])

    def describe(self, metadata: AssetMetadata) -> None:
        """Write what the asset says of itself: with its program it is whole then."""
        self._ask({"command": "describe", "metadata": asdict(metadata)})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._child.ask({**request, "folder": str(self._folder.resolve())}, seconds=_SECONDS)
        except DamagedAssetError as err:
            raise _failure(err, self._folder) from err


@contextmanager
def open_author(folder: Path, *, geometry: Geometry, recipe: Recipe) -> Iterator[Author]:
    """Start the child that writes the drafter's asset into the new folder ``folder``, and end it at last.

    Its methods raise OutputError when the disk refuses, PlatformError where Core AI is missing or fails on good
    input.
    """
    require_coreai()
    size = sum(payload_bytes(spec.dtype, spec.shape) for spec in constant_table(geometry, recipe).values())
    limits = Limits(memory=_BASE_MEMORY + 4 * size, file_size=size + _SPARE_FILE)
    with Child(CHILD, subject=str(folder), limits=limits) as child:
        yield Author(child, folder, geometry, recipe)


def _failure(err: DamagedAssetError, folder: Path) -> ForgepackError:
    """Distinguish a disk that refused from a toolchain that failed: both end Core AI's writer."""
    found = str(err.found)
    reason = next((reason for reason in _FULL if reason in found), None)
    if reason is not None:
        return OutputError("the asset could not be written", where=str(folder), found=reason, code="write")
    return PlatformError(
        "Core AI's toolchain failed to author the package",
        where=str(folder),
        found=found,
        hint="report this with the versions that forgepack --version and pip show",
        code="toolchain",
    )


def expected_request(geometry: Geometry, recipe: Recipe) -> dict[str, Any]:
    """Return what a child that authors is asked for the program that emission builds; it answers a ``program``."""
    return {"command": "expected", "geometry": asdict(geometry), "recipe": asdict(recipe)}
