"""The miniature target's head package, authored from its export alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import SafetensorsFile, read_safetensors
from forgepack.artifacts.target import HEAD_FILE
from forgepack.coreai_backend.target_assets import HeadWeights
from forgepack.geometry import Geometry

GAIN = "final_norm"


def read_head_weights(export: Path, geometry: Geometry) -> HeadWeights:
    """Read lm_head.safetensors and, from the last layer's file, the final norm's effective gain (1 + w)."""
    head = read_safetensors(export / HEAD_FILE)
    last = read_safetensors(export / f"layer_{geometry.target_layers - 1:02d}.safetensors")
    return HeadWeights(
        idx=_copy(head, "lm_head.idx"),
        lut=_copy(head, "lm_head.lut")[:, 0],
        scale=_copy(head, "lm_head.scale"),
        gain=_copy(last, GAIN).astype(np.float32),
        eps=geometry.rms_eps,
        fold=1.0,  # the table as it stands; a drafter package folds its copy of the head otherwise
    )


def _copy(file: SafetensorsFile, name: str) -> npt.NDArray[Any]:
    return np.array(file.array(name))
