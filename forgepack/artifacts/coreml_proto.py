"""Core ML's protobuf messages, without the import of coremltools: that takes 0.7 s and prints warnings.

The generated modules import each other relatively, so they load under a package of our own that points at
coremltools' folder. They register the same descriptors as the real ones, so importing coremltools later still works
(tested). Without coremltools, or without protobuf, there is nothing to load.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

_ALIAS = "_forgepack_coreml_proto"
NEEDED = "coremltools"


def load_messages() -> Any | None:
    """Return the module with the message ``Model``; None where coremltools or protobuf is not installed."""
    folder = _proto_folder()
    if folder is None:
        return None
    if _ALIAS not in sys.modules:
        package = types.ModuleType(_ALIAS)
        package.__path__ = [str(folder)]
        sys.modules[_ALIAS] = package
    try:
        return importlib.import_module(f"{_ALIAS}.Model_pb2")
    except ImportError:
        return None


def _proto_folder() -> Path | None:
    """Return where coremltools keeps its messages, found without importing it."""
    try:
        spec = importlib.util.find_spec(NEEDED)
    except (ImportError, ValueError):
        return None
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    folders = [Path(place) / "proto" for place in places]
    return next((folder for folder in folders if (folder / "Model_pb2.py").is_file()), None)
