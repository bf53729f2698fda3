"""report.json of a QUANT folder: what was quantized from which inputs, by which recipe, with which error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from forgepack.artifacts.files import read_bounded
from forgepack.canonical import parse_object, sha256_hex
from forgepack.document import DocumentKind, grown
from forgepack.errors import CorruptError
from forgepack.limits import QUANT_REPORT_BYTES

if TYPE_CHECKING:
    from forgepack.artifacts.trace_overlap import Fingerprint


def _from_version_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a report of version 1 in today's form: what it could not state is null."""
    inputs = raw.get("inputs")
    if not isinstance(inputs, dict):
        return raw
    return {**raw, "inputs": {**inputs, **traces_from_version_1(inputs, "calibration", "held_out")}}


def traces_from_version_1(raw: Mapping[str, Any], calibration: str, held_out: str) -> dict[str, Any]:
    """Return both sides of the traces in today's form: what version 1 did not record of them is null."""
    unknown: dict[str, dict[str, Any]] = {
        calibration: {"fingerprint": None, "rows_beyond_tokens": None},
        held_out: {"overlap": None, "rows_beyond_tokens": None},
    }
    return {key: grown(raw[key], **more) for key, more in unknown.items() if isinstance(raw.get(key), dict)}


KIND = DocumentKind(
    name="forgepack.quant_report",
    title="quantization report",
    remake="quantize again",
    code="quant-report",
    version=2,
    upgrade=_from_version_1,
    form="quant_report",
    unstated=("fingerprint", "overlap", "rows_beyond_tokens"),
)
REPORT_FILE = "report.json"
MAX_BYTES = QUANT_REPORT_BYTES
Method = Literal["gptq", "rtn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantReport:
    """The parts of report.json that other commands use; ``raw`` is all of it.

    ``calibration_mask_scale`` was used for the Hessians, ``mask_scale`` is the one to deploy with. Digests are
    sha256 hex of whole files, ``lock_sha256`` that of the lock's canonical JSON. ``calibrated`` holds the
    calibration's sequences by content, None in a report of version 1.
    """

    path: Path
    raw: Mapping[str, Any]
    sha256: str
    method: Method
    variant: str
    profile: str
    profile_sha256: str
    mask_scale: float
    calibration_mask_scale: float
    repo: str
    commit: str
    adopted: bool
    lock_sha256: str
    model_sha256: str
    config_sha256: str
    head_sha256: str
    embedding_sha256: str
    tokenizer_sha256: str
    traces_sha256: str
    traces_bound: bool
    calibrated: Fingerprint | None
    output_sha256: str
    output_bytes: int


def read_quant_report(path: Path) -> QuantReport:
    """Read and check report.json; CorruptError names the JSON path at fault."""
    data = read_bounded(path, MAX_BYTES)
    written = parse_object(data, where=str(path))
    raw = KIND.judged(written, where=str(path))
    recipe, inputs, scale = raw["recipe"], raw["inputs"], raw["recipe"]["mask_scale"]
    checkpoint, target, calibration = inputs["checkpoint"], inputs["target"], inputs["calibration"]
    return QuantReport(
        path=path,
        raw=raw,
        sha256=sha256_hex(data),
        method=raw["method"],
        variant=recipe["variant"],
        profile=raw["profile"]["name"],
        profile_sha256=raw["profile"]["sha256"],
        mask_scale=float(scale["deployment"]),
        calibration_mask_scale=float(scale["calibration"]),
        **checkpoint,
        **{f"{part}_sha256": target[f"{part}_sha256"] for part in ("head", "embedding", "tokenizer")},
        traces_sha256=calibration["traces_sha256"],
        traces_bound=calibration["bound"],
        calibrated=_calibrated(calibration["fingerprint"], path),
        output_sha256=raw["output"]["sha256"],
        output_bytes=raw["output"]["bytes"],
    )


def _calibrated(stated: Mapping[str, Any] | None, path: Path) -> Fingerprint | None:
    """Return the fingerprint, None of a report of version 1; no schema can say that hashes can be unpacked."""
    from forgepack.artifacts.trace_overlap import parse_fingerprint

    found = parse_fingerprint(stated)
    if stated is not None and found is None:
        raise CorruptError(
            "the quantization report is not valid",
            where=f"{path}: inputs.calibration.fingerprint",
            expected="a fingerprint as this version takes it",
            found=repr(stated)[:80],
            hint=KIND.remake,
            code=KIND.code,
        )
    return found
