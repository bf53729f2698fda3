"""Read assets in a child process: the program, the head's digest, the bytes of chosen constants.

Whatever the asset holds, the caller gets a value or a ForgepackError: DamagedAssetError when Core AI's reader
crashed, hung or answered nonsense, PlatformError where Core AI is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.aimodel import AssetFiles
from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.coreai_backend.availability import require_coreai
from forgepack.coreai_backend.head import Head, HeadPart
from forgepack.coreai_backend.head_content import HeadContent, HeadDigest, content_of_program
from forgepack.coreai_backend.process import Child, DamagedAssetError, Limits, error_from_json
from forgepack.coreai_backend.program import AssetProgram, program_from_json
from forgepack.disk.temporary import temporary_folder
from forgepack.errors import ForgepackError

CHILD = "forgepack.coreai_backend.child"
_SPARE_FILE = 1 << 20
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


def limits_for(*assets: AssetFiles, file_size: int = _SPARE_FILE, spare: int = 0) -> Limits:
    """Return limits that fit the largest asset: address space for the libraries, the map, one copy, and to spare."""
    largest = max((files.program_bytes for files in assets), default=0)
    return Limits(memory=_BASE_MEMORY + 3 * largest + spare, file_size=file_size)


def limits_for_constants(*assets: AssetFiles) -> Limits:
    """Return limits under which any constant of the assets may also be written to a file."""
    largest = max((files.program_bytes for files in assets), default=0)
    return limits_for(*assets, file_size=largest + _SPARE_FILE)


class AssetReader:
    """Reads assets in a child: in one for as many as it lives through while the reader is entered, else in one each.

    A child that an asset brought down is blamed on that asset; whatever is asked next gets a new one. ``limits`` are
    taken when a child is started, so they must fit every asset that it may read; ``module`` is what runs in it;
    ``seconds`` bounds each answer. Threads may share a reader: it answers one after another.
    """

    def __init__(self, limits: Callable[[], Limits], *, seconds: float = 120.0, module: str = CHILD) -> None:
        self._limits, self._seconds, self._module = limits, seconds, module
        self._asking = threading.Lock()
        self._child: Child | None = None
        self._entered = 0

    def __enter__(self) -> Self:
        with self._asking:
            self._entered += 1
            with suppress(ForgepackError):  # reported when something is asked
                self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._asking:
            self._entered -= 1
            self._end()

    def read(self, files: AssetFiles, *, head: bool = False, digests: bool = True) -> AssetReading:
        """Return an asset's program, with ``head`` also its language-model head.

        Without ``digests`` the content of named constants is not looked at: enough for entry points and wiring.
        """
        where = str(files.root)
        request: dict[str, Any] = {"command": "read", "program": str(files.program.resolve()), "where": where}
        request |= {"head": head, "digests": digests}
        with self._served() as child:
            reply = child.ask(request, seconds=self._seconds, subject=where)
            try:
                program = program_from_json(reply["program"])
                found = _head(reply["head"]) if head else None
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as err:
                raise _nonsense(files, child.noise) from err
        return AssetReading(files=files, program=program, head=found)

    def read_head(self, file: SafetensorsFile) -> HeadDigest:
        """Return the digest of an export's head; packages that are read later are first compared with it."""
        where = str(file.path)
        with self._served() as child:
            request = {"command": "head", "file": str(file.path.absolute())}
            return HeadDigest(**child.ask(request, seconds=self._seconds, subject=where)["content"])

    def ask(self, request: Mapping[str, Any], *, subject: str, seconds: float | None = None) -> dict[str, Any]:
        """Return the child's answer to any request; ``subject`` is what a failure is blamed on."""
        with self._served() as child:
            return child.ask(request, seconds=self._seconds if seconds is None else seconds, subject=subject)

    @contextmanager
    def _served(self) -> Iterator[Child]:
        """Give the child to one asker; afterwards it lives on if it answered and more may be asked."""
        with self._asking:
            answered, child = False, self._start()
            try:
                yield child
                answered = True
            except ForgepackError as err:
                answered = not isinstance(err, DamagedAssetError)
                raise
            finally:
                if not (answered and self._entered):
                    self._end()

    def _start(self) -> Child:
        if self._child is None:
            require_coreai()
            self._child = Child(self._module, subject="the assets", limits=self._limits())
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def read_asset(
    files: AssetFiles, *, head: bool = False, digests: bool = True, seconds: float = 120.0
) -> AssetReading:
    """Read one asset in a child of its own: see ``AssetReader.read``."""
    return AssetReader(lambda: limits_for(files), seconds=seconds).read(files, head=head, digests=digests)


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
        found=f"an answer that is not a program; {noise.strip()[-200:]}",
        code="asset-crash",
    )


@contextmanager
def open_constants(
    reading: AssetReading, indices: Sequence[int], *, seconds: float = 120.0, reader: AssetReader | None = None
) -> Iterator[Mapping[int, npt.NDArray[np.uint8]]]:
    """Give the packed bytes of chosen constants as read-only memory maps, for as long as the context lasts.

    ``reader`` fetches them, one whose child may write files of their size; without one, a child of their own does.
    """
    files, wanted = reading.files, sorted(set(indices))
    largest = max((reading.program.constants[n].nbytes for n in wanted), default=0)
    if reader is None:
        limits = limits_for(files, file_size=largest + _SPARE_FILE)
        reader = AssetReader(lambda: limits, seconds=seconds)
    with temporary_folder() as folder:
        request = {"command": "constants", "program": str(files.program.resolve()), "where": str(files.root)}
        reader.ask({**request, "indices": wanted, "folder": str(folder)}, subject=str(files.root))
        yield {n: _map(folder, n) for n in wanted}


def _map(folder: Path, index: int) -> npt.NDArray[np.uint8]:
    path = folder / f"{index}.bin"
    return np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)


@contextmanager
def open_head(reading: AssetReading, *, reader: AssetReader | None = None) -> Iterator[HeadContent]:
    """Give the content of an asset's head, to be compared row by row with another."""
    head = reading.require_head().head
    indices = [n for part in head.parts for n in (part.weight, part.lut, *part.factors) if n is not None]
    with open_constants(reading, indices, reader=reader) as payloads:
        yield content_of_program(reading.program, head, payloads.__getitem__, str(reading.files.root))
