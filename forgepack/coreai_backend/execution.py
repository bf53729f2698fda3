"""Execute an asset's entry points on the CPU; runs in a child, because lowering may crash and prints a lot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np

from forgepack.errors import CorruptError


class Runner:
    """Loads one asset, then calls its entry points as often as wanted.

    Core AI writes the lowered program, as large as the asset, into the folder for temporary files.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Any = None
        self._model: Any = None
        self._functions: dict[str, Any] = {}

    def load(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Load the asset at ``root`` and return the names of its entry points."""
        import coreai.authoring as ca

        self._loop = asyncio.new_event_loop()
        self._context = ca.AIModelAsset.load(request["root"]).executable()
        self._model = self._loop.run_until_complete(self._context.__aenter__())
        return {"entries": sorted(self._model.function_names)}

    def call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run ``entry`` on the arrays of the npz file ``inputs``; write its outputs to the npz file ``outputs``."""
        from coreai.runtime import NDArray

        assert self._loop is not None
        function = self._function(request["entry"])
        with np.load(request["inputs"]) as stored:
            inputs = {name: NDArray(np.ascontiguousarray(stored[name])) for name in stored.files}
        results = self._loop.run_until_complete(function(inputs))
        arrays: Any = {name: np.array(value.numpy()) for name, value in results.items()}
        np.savez(request["outputs"], **arrays)
        return {"outputs": sorted(arrays)}

    def _function(self, entry: str) -> Any:
        if entry not in self._functions:
            if entry not in self._model.function_names:
                raise CorruptError("the asset has no such entry point", found=entry, code="entry-missing")
            self._functions[entry] = self._model.load_function(entry)
        return self._functions[entry]
