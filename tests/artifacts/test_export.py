"""An export by its layers, and an index beside its tensor files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from forgepack.artifacts.export import INDEX_FILE, layer_files, read_export
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.artifacts.tree import walk

FILES = {"layer_00.safetensors": ("a", "b"), "layer_00_mixer.safetensors": ("c",), "lm_head.safetensors": ("h",)}
GOOD = {name: file for file, names in FILES.items() for name in names}


def codes(root: Path, weight_map: object) -> list[str]:
    """Return the codes of all faults of an export of one layer with an index."""
    for file, names in FILES.items():
        with SafetensorsWriter(root / file, dict.fromkeys(names, ("F16", (4,))), {}) as out:
            for name in names:
                out.write(name, np.full(4, ord(name), np.float16))
    (root / INDEX_FILE).write_text(json.dumps({"weight_map": weight_map}))
    return [fault.code for fault in read_export(root, walk(root), layers=1)[1]]


def test_an_index_that_names_every_tensor_once_passes(tmp_path: Path) -> None:
    """Each tensor of each file, in the file that holds it."""
    assert [] == codes(tmp_path, GOOD)


@pytest.mark.parametrize(
    ("weight_map", "code"),
    [
        ({**GOOD, "d": "layer_00.safetensors"}, "export-index"),
        ({**GOOD, "a": "layer_01.safetensors"}, "export-index"),
        ({**GOOD, "a": "layer_00_mixer.safetensors"}, "export-index"),
        ({name: file for name, file in GOOD.items() if name != "c"}, "export-index"),
        ({**GOOD, "a": "../layer_00.safetensors"}, "path-escape"),
        ({**GOOD, "a": 7}, "export-index"),
        ([], "export-index"),
        (None, "export-index"),
    ],
)
def test_an_index_that_does_not_fit_is_told(tmp_path: Path, weight_map: object, code: str) -> None:
    """A tensor that no file has, a file that is not there, a tensor elsewhere, one left out, a path outside."""
    assert code in codes(tmp_path, weight_map)


def test_layers_are_named_by_their_number() -> None:
    """Two digits, a mixer beside each; 64 layers are the release's 128 files."""
    assert ("layer_00.safetensors", "layer_00_mixer.safetensors", "layer_01.safetensors") == layer_files(2)[:3]
    assert (128, "layer_63_mixer.safetensors") == (len(layer_files(64)), layer_files(64)[-1])
    assert "layer_100.safetensors" in layer_files(101)
