"""Facts of a quantization, as its report states them: recipe, calibration and the digests of what was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forgepack.artifacts.quant_report import QuantReport
from forgepack.facts.fact import Fact


def quantization_facts(report: QuantReport) -> Iterator[Fact]:
    """Yield what identifies a quantization; the mask scales of calibration and deployment are two facts."""
    raw, inputs = report.raw, report.raw["inputs"]
    found: dict[str, tuple[Any, str]] = {
        "variant": (report.variant, "recipe.variant"),
        "method": (report.method, "method"),
        "recipe": (raw["recipe"], "recipe"),
        "mask_scale.calibration": (report.calibration_mask_scale, "recipe.mask_scale.calibration"),
        "mask_scale.deployment": (report.mask_scale, "recipe.mask_scale.deployment"),
        "calibration.traces": (inputs["calibration"], "inputs.calibration"),
        "calibration.held_out": (inputs.get("held_out"), "inputs.held_out"),
        "calibration.target": (inputs["target"], "inputs.target"),
        "calibration.checkpoint": (inputs["checkpoint"], "inputs.checkpoint"),
        "profile_sha256": (report.profile_sha256, "profile.sha256"),
        "report_sha256": (report.sha256, ""),
        "drafter_quant_sha256": (report.output_sha256, "output.sha256"),
    }
    for path, (value, part) in found.items():
        yield Fact(path=path, value=value, file=report.path, part=part, subject=f"quantization {path}")
