"""Read assets in a child process: the program, the head's digest, the bytes of chosen constants.

Whatever the asset holds, the caller gets a value or an error of ours: DamagedAssetError when Core AI's reader
crashed, hung or answered nonsense, PlatformError where Core AI is missing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.aimodel import AssetFiles
from forgepack.coreai_backend.availability import require_coreai
from forgepack.coreai_backend.head import Head, HeadPart
from forgepack.coreai_backend.head_content import HeadContent, HeadDigest, content_of_program
from forgepack.coreai_backend.process import Child, DamagedAssetError, Limits, error_from_json
from forgepack.coreai_backend.program import AssetProgram, program_from_json
from forgepack.errors import ForgepackError, PlatformError

CHILD = "forgepack.coreai_backend.child"
_BASE_MEMORY = 6 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundHead:
    """A head in a program and the digest of its content."""

    head: Head
    digest: HeadDigest


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetReading:
    """What a child read. ``head`` is the head, the error that says why there is none, or None if not asked for."""

    files: AssetFiles
    program: AssetProgram
    head: FoundHead | ForgepackError | None

    def require_head(self) -> FoundHead:
        """Return the head; raise the error that says why there is none."""
        if isinstance(self.head, ForgepackError):
            raise self.head
        if self.head is None:
            raise ValueError("the head was not asked for")
        return self.head


def limits_for(files: AssetFiles, *, file_size: int = 1 << 20, spare: int = 0) -> Limits:
    """Return limits that fit an asset's size: address space for the libraries, the map and one copy, and to spare."""
    return Limits(memory=_BASE_MEMORY + 3 * files.program_bytes + spare, file_size=file_size)


def read_asset(
    files: AssetFiles, *, head: bool = False, digests: bool = True, seconds: float = 120.0
) -> AssetReading:
    """Read an asset's program, and with ``head`` its language-model head, in a child process.

    Without ``digests`` the content of named constants is not looked at: enough for entry points and wiring.
    """
    require_coreai()
    with Child(CHILD, subject=str(files.root), limits=limits_for(files)) as child:
        return _read(child, Wanted(files=files, head=head, digests=digests), seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An asset to be read, and what of it: see ``read_asset``."""

    files: AssetFiles
    head: bool = False
    digests: bool = True


def read_assets(wanted: Mapping[str, Wanted], *, seconds: float = 120.0) -> dict[str, AssetReading | ForgepackError]:
    """Read several assets, one child for as many as it lives through: each one's reading or its error by name.

    ``seconds`` bounds each asset. PlatformError is raised: it is no one asset's fault.
    """
    require_coreai()
    found: dict[str, AssetReading | ForgepackError] = {}
    pending = list(wanted.items())
    while pending:
        largest = max((one.files for _, one in pending), key=lambda files: files.program_bytes)
        with Child(CHILD, subject="the assets", limits=limits_for(largest)) as child:
            alive = True
            while pending and alive:
                name, one = pending.pop(0)
                try:
                    found[name] = _read(child, one, seconds)
                except PlatformError:
                    raise
                except ForgepackError as err:
                    found[name] = err
                    alive = not isinstance(err, DamagedAssetError)
    return found


def _read(child: Child, wanted: Wanted, seconds: float) -> AssetReading:
    files, where = wanted.files, str(wanted.files.root)
    request: dict[str, Any] = {"command": "read", "program": str(files.program.resolve()), "where": where}
    request |= {"head": wanted.head, "digests": wanted.digests}
    reply = child.ask(request, seconds=seconds, subject=where)
    try:
        program = program_from_json(reply["program"])
        found = _head(reply["head"]) if wanted.head else None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as err:
        raise _nonsense(files, child.noise) from err
    return AssetReading(files=files, program=program, head=found)


def _head(raw: Mapping[str, Any]) -> FoundHead | ForgepackError:
    if "error" in raw:
        return error_from_json(raw["error"])
    parts = tuple(HeadPart(**{**part, "factors": tuple(part["factors"])}) for part in raw["head"]["parts"])
    head = Head(function=raw["head"]["function"], parts=parts)
    return FoundHead(head=head, digest=HeadDigest(**raw["content"]))


def _nonsense(files: AssetFiles, noise: str) -> DamagedAssetError:
    return DamagedAssetError(
        "the asset can't be read",
        where=str(files.root),
        found=f"an answer that is no program; {noise.strip()[-200:]}",
        code="asset-crash",
    )


@contextmanager
def open_constants(
    reading: AssetReading, indices: Sequence[int], *, seconds: float = 120.0
) -> Iterator[Mapping[int, npt.NDArray[np.uint8]]]:
    """Give the packed bytes of chosen constants as read-only memory maps, for as long as the context lasts."""
    files, wanted = reading.files, sorted(set(indices))
    largest = max((reading.program.constants[n].nbytes for n in wanted), default=0)
    with tempfile.TemporaryDirectory(prefix="forgepack-") as folder:
        request = {
            "command": "constants",
            "program": str(files.program.resolve()),
            "indices": wanted,
            "folder": folder,
        }
        limits = limits_for(files, file_size=largest + (1 << 20))
        with Child(CHILD, subject=str(files.root), limits=limits) as child:
            child.ask(request, seconds=seconds)
        yield {n: _map(Path(folder), n) for n in wanted}


def _map(folder: Path, index: int) -> npt.NDArray[np.uint8]:
    path = folder / f"{index}.bin"
    return np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)


@contextmanager
def open_head(reading: AssetReading, *, seconds: float = 120.0) -> Iterator[HeadContent]:
    """Give the content of an asset's head, to be compared row by row with another."""
    head = reading.require_head().head
    indices = [n for part in head.parts for n in (part.weight, part.lut, *part.factors) if n is not None]
    with open_constants(reading, indices, seconds=seconds) as payloads:
        yield content_of_program(reading.program, head, payloads.__getitem__, str(reading.files.root))
