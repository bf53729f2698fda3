"""Author the drafter's asset in a child process, from a file of computed constants."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forgepack.coreai_backend.asset_writer import AssetMetadata
from forgepack.coreai_backend.availability import require_coreai
from forgepack.coreai_backend.process import Child, DamagedAssetError, Limits
from forgepack.coreai_backend.program import AssetProgram, program_from_json
from forgepack.emit.constants_file import StoredConstants
from forgepack.errors import ForgepackError, OutputError, PlatformError
from forgepack.geometry import Geometry
from forgepack.profile import Recipe

CHILD = "forgepack.emit.child"
_BASE_MEMORY = 6 << 30
_SPARE_FILE = 1 << 30
_SECONDS = 3600.0
_FULL = ("No space left on device", "File too large", "Read-only file system", "Input/output error")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoredAsset:
    """What was authored: the program's size and digest, and the digest of its structure."""

    program_bytes: int
    program_sha256: str
    trace_sha256: str


def author_drafter(
    stored: StoredConstants, folder: Path, *, geometry: Geometry, recipe: Recipe, metadata: AssetMetadata
) -> AuthoredAsset:
    """Write the drafter's asset into the new folder ``folder``.

    Raises OutputError when the disk refuses, PlatformError where Core AI is missing or fails on good input.
    """
    require_coreai()
    size = sum(constant.nbytes for constant in stored.constants.values())
    request = {
        "command": "build",
        "geometry": asdict(geometry),
        "recipe": asdict(recipe),
        "file": str(stored.path.resolve()),
        "constants": {role: asdict(constant) for role, constant in stored.constants.items()},
        "folder": str(folder.resolve()),
        "metadata": asdict(metadata),
    }
    limits = Limits(memory=_BASE_MEMORY + 4 * size, file_size=2 * size + _SPARE_FILE)
    with Child(CHILD, subject=str(folder), limits=limits) as child:
        try:
            reply = child.ask(request, seconds=_SECONDS)
        except DamagedAssetError as err:
            raise _failure(err, folder) from err
    return AuthoredAsset(program_bytes=reply["bytes"], program_sha256=reply["sha256"], trace_sha256=reply["trace"])


def _failure(err: DamagedAssetError, folder: Path) -> ForgepackError:
    """Tell a disk that refused from a toolchain that failed: Core AI's writer ends the process in both cases."""
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


def expected_program(geometry: Geometry, recipe: Recipe) -> AssetProgram:
    """Return the program that emission builds for this geometry, its constants named by role and without content.

    ``recipe.mask_scale`` does not matter. Raises PlatformError where Core AI is missing.
    """
    require_coreai()
    request: dict[str, Any] = {"command": "expected", "geometry": asdict(geometry), "recipe": asdict(recipe)}
    with Child(CHILD, subject="the expected program", limits=Limits(memory=_BASE_MEMORY)) as child:
        return program_from_json(child.ask(request, seconds=_SECONDS)["program"])
