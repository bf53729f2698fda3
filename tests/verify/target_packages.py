"""The tiny target's packages: its head, and two chunks that export the taps inside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.coreai_backend.asset_writer import AssetMetadata
from forgepack.coreai_backend.target_assets import HeadWeights, author_chunk_standin, author_head_package
from forgepack.geometry import Geometry
from forgepack.profile import Profile
from tests.verify.factory import EXPORT, write_json

LAYERS_PER_CHUNK = 4
_METADATA = AssetMetadata(author="tests", licence="Apache-2.0", description="a stand-in of the tests")


def write_packages(root: Path, profile: Profile) -> None:
    """Write coreai/: manifest, head package and chunk packages."""
    g, build = profile.geometry, root / "coreai"
    chunks = []
    for first in range(0, g.target_layers, LAYERS_PER_CHUNK):
        last = first + LAYERS_PER_CHUNK - 1
        taps = [tap for tap in g.taps if first <= tap <= last]
        name = f"chunk_L{first:02d}-{last:02d}.aimodel"
        outputs = ["y", *(f"tap{tap}" for tap in taps if tap != last)]
        author_chunk_standin(
            build / name, hidden=g.hidden, entries={"v8_1k": 8, "p64_1k": 64}, outputs=outputs, metadata=_METADATA
        )
        chunks.append({"file": name, "layers": [first, last], "entries": ["v8_1k", "p64_1k"], "taps": taps})
    export = root / "export" / EXPORT
    write_head_package(build / "head_T8.aimodel", export / "lm_head.safetensors", g)
    write_final_norm(export / f"layer_{g.target_layers - 1:02d}.safetensors", np.ones(g.hidden, np.float16))
    manifest = {
        "version": 1,
        "T": g.block,
        "TP": g.prefill_rows,
        "pend": 8,
        "taps": list(g.taps),
        "ctxs": [1024],
        "pctxs": [1024],
        "kv_len": {"1024": 960},
        "export": f"exports/{EXPORT}",
        "kv_cache": {},
        "chunks": chunks,
        "head": {"file": "head_T8.aimodel"},
    }
    write_json(build / "manifest.json", manifest)


def write_final_norm(path: Path, gain: npt.NDArray[np.float16]) -> None:
    """Write the last layer's file of an export, which also holds the final norm's gain (hidden,)."""
    with SafetensorsWriter(path, {"final_norm": ("F16", gain.shape)}, {}) as out:
        out.write("final_norm", gain)


def write_head_package(folder: Path, head_file: Path, g: Geometry) -> None:
    """Write the target's own head package from an lm_head.safetensors."""
    source = read_safetensors(head_file)
    head = HeadWeights(
        idx=np.array(source.array("lm_head.idx")),
        lut=np.array(source.array("lm_head.lut")).reshape(-1),
        scale=np.array(source.array("lm_head.scale")),
        gain=np.ones(g.hidden, np.float32),
        eps=1e-6,
    )
    author_head_package(folder, head, parts=4, metadata=_METADATA)
