"""The embedded miniature: a trained target and drafter that ship with the tool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forgepack.resources import data_folder

PROFILE = "mini"
STALE_EXPORT = "mini_step100"


@dataclass(frozen=True, slots=True, kw_only=True)
class Miniature:
    """Where the parts of the miniature are; all are read-only."""

    checkpoint: Path
    target: Path
    stale_head: Path
    calibration: Path
    held_out: Path


def find_miniature() -> Miniature:
    """Return the miniature that ships with the tool."""
    root = data_folder("mini")
    return Miniature(
        checkpoint=root / "checkpoint",
        target=root / "target",
        stale_head=root / "stale" / STALE_EXPORT / "lm_head.safetensors",
        calibration=root / "traces" / "calib.npz",
        held_out=root / "traces" / "heldout.npz",
    )
