"""report.json of a QUANT folder: what was quantized from which inputs, by which recipe, with which error."""

from __future__ import annotations

import re
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
)
REPORT_FILE = "report.json"
_FINGERPRINT = "inputs.calibration.fingerprint"
MAX_BYTES = QUANT_REPORT_BYTES
_KEYS = {"schema", "tool", "profile", "method", "recipe", "inputs", "matrices", "totals", "numerics", "output"}
_SHA256 = re.compile(r"[0-9a-f]{64}")

Method = Literal["gptq", "rtn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantReport:
    """The parts of report.json that other commands judge by; ``raw`` is all of it.

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


class _Reader:
    """Takes values out of the report's JSON by path; a value of another type is a CorruptError that names it."""

    def __init__(self, path: Path, raw: Mapping[str, Any]) -> None:
        self._path, self._raw = path, raw

    def value(self, dotted: str) -> Any:
        node: Any = self._raw
        for key in dotted.split("."):
            if not isinstance(node, dict) or key not in node:
                raise self._fault(dotted, "present", "absent")
            node = node[key]
        return node

    def text(self, dotted: str) -> str:
        value = self.value(dotted)
        if not isinstance(value, str):
            raise self._fault(dotted, "a text", repr(value)[:80])
        return value

    def digest(self, dotted: str) -> str:
        value = self.text(dotted)
        if _SHA256.fullmatch(value) is None:
            raise self._fault(dotted, "64 hex digits", repr(value)[:80])
        return value

    def scale(self, dotted: str) -> float:
        value = self.value(dotted)
        if type(value) not in (int, float) or not 0 < value <= 1:
            raise self._fault(dotted, "over 0, at most 1", repr(value)[:80])
        return float(value)

    def _fault(self, dotted: str, expected: str, found: str) -> CorruptError:
        return CorruptError(
            "the quantization report is not valid",
            where=f"{self._path}: {dotted}",
            expected=expected,
            found=found,
            hint=KIND.remake,
            code=KIND.code,
        )

    def demand(self, holds: bool, dotted: str, expected: str) -> None:
        if not holds:
            raise self._fault(dotted, expected, repr(self._raw.get(dotted.split(".", maxsplit=1)[0]))[:80])


def read_quant_report(path: Path) -> QuantReport:
    """Read and judge report.json; CorruptError names the JSON path at fault."""
    from forgepack.artifacts.trace_overlap import parse_fingerprint

    data = read_bounded(path, MAX_BYTES)
    written = parse_object(data, where=str(path))
    older, raw = KIND.is_older(written), KIND.current(written, where=str(path))
    read = _Reader(path, raw)
    read.demand(set(raw) == _KEYS, "schema", f"the keys {', '.join(sorted(_KEYS))}")
    method, size = raw["method"], read.value("output.bytes")
    read.demand(method in ("gptq", "rtn"), "method", "gptq or rtn")
    read.demand(type(size) is int and size > 0, "output.bytes", "a positive integer")
    read.demand(isinstance(raw["matrices"], dict), "matrices", "an object")
    bound = read.value("inputs.calibration.bound")
    read.demand(isinstance(bound, bool), "inputs.calibration.bound", "true or false")
    adopted = read.value("inputs.checkpoint.adopted")
    read.demand(isinstance(adopted, bool), "inputs.checkpoint.adopted", "true or false")
    stated = read.value(_FINGERPRINT)
    calibrated = parse_fingerprint(stated)
    read.demand((older and stated is None) or calibrated is not None, _FINGERPRINT, "a fingerprint")
    if not older:
        read.demand(isinstance(read.value("inputs.held_out.overlap"), dict), "inputs.held_out.overlap", "an object")
    return QuantReport(
        path=path,
        raw=raw,
        sha256=sha256_hex(data),
        method=method,
        variant=read.text("recipe.variant"),
        profile=read.text("profile.name"),
        profile_sha256=read.digest("profile.sha256"),
        mask_scale=read.scale("recipe.mask_scale.deployment"),
        calibration_mask_scale=read.scale("recipe.mask_scale.calibration"),
        repo=read.text("inputs.checkpoint.repo"),
        commit=read.text("inputs.checkpoint.commit"),
        adopted=adopted,
        lock_sha256=read.digest("inputs.checkpoint.lock_sha256"),
        model_sha256=read.digest("inputs.checkpoint.model_sha256"),
        config_sha256=read.digest("inputs.checkpoint.config_sha256"),
        head_sha256=read.digest("inputs.target.head_sha256"),
        embedding_sha256=read.digest("inputs.target.embedding_sha256"),
        tokenizer_sha256=read.digest("inputs.target.tokenizer_sha256"),
        traces_sha256=read.digest("inputs.calibration.traces_sha256"),
        traces_bound=bound,
        calibrated=calibrated,
        output_sha256=read.digest("output.sha256"),
        output_bytes=size,
    )
