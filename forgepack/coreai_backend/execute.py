"""Run an asset's entry points on the CPU from the outside: one load, many calls, in a child process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.aimodel import AssetFiles
from forgepack.coreai_backend.availability import require_coreai
from forgepack.coreai_backend.process import Child
from forgepack.coreai_backend.reader import CHILD, limits_for
from forgepack.disk.temporary import temporary_folder
from forgepack.errors import CorruptError

# Inputs and results of a call, beside the lowered program.
_SPARE_FILE = 1 << 30
_SPARE_MEMORY = 16 << 30


class AssetSession:
    """An asset that has been loaded for execution; ``entries`` are the names of its entry points."""

    def __init__(self, child: Child, folder: Path, entries: tuple[str, ...], seconds: float) -> None:
        self.entries = entries
        self._child = child
        self._folder = folder
        self._seconds = seconds

    @property
    def noise(self) -> str:
        """The last part of what Core AI printed."""
        return self._child.noise

    def call(self, entry: str, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs of ``entry``, which takes and returns float16 arrays by name.

        Raises DamagedAssetError when the runtime crashes or hangs, CorruptError for an unknown entry point.
        """
        given, made = self._folder / "inputs.npz", self._folder / "outputs.npz"
        arrays: Any = dict(inputs)
        np.savez(given, **arrays)
        request = {"command": "call", "entry": entry, "inputs": str(given), "outputs": str(made)}
        self._child.ask(request, seconds=self._seconds)
        with np.load(made) as stored:
            return {name: stored[name] for name in stored.files}


@contextmanager
def open_session(files: AssetFiles, *, seconds: float = 600.0) -> Iterator[AssetSession]:
    """Load an asset for execution on the CPU; ``seconds`` bounds the load and each call.

    Temporary files, the lowered program among them, are in a private folder that is removed at the end. Raises
    PlatformError where Core AI is missing, DamagedAssetError when the asset can't be loaded.
    """
    require_coreai()
    limits = limits_for(files, file_size=2 * files.program_bytes + _SPARE_FILE, spare=_SPARE_MEMORY)
    with (
        temporary_folder() as folder,
        Child(CHILD, subject=str(files.root), limits=limits, scratch=folder) as child,
    ):
        reply = child.ask({"command": "load", "root": str(files.root.resolve())}, seconds=seconds)
        entries = reply.get("entries")
        if not isinstance(entries, list):
            raise CorruptError("the asset has no entry points", where=str(files.root), code="entry-missing")
        yield AssetSession(child, folder, tuple(entries), seconds)
