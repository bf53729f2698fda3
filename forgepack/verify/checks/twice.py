"""What a pair's documents state twice: a table of pairs of places, which must agree.

A place is a dotted path below a document: ``sidecar``, ``report`` (of the quantization), ``tensors`` (metadata of its
file) and ``source`` (DFLASH2_SOURCE.json); a key that holds a dot stands in brackets. A pair counts where both places
state something, so it needs none of the files that they speak of. What forgepack.json and an asset's metadata repeat
of the sidecar is compared as a whole by rules of their own (CTR052, PKG022).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from forgepack.artifacts.aimodel import stated_hash_digest
from forgepack.json_values import equal_json_strict
from forgepack.verify.findings.report import Severity
from forgepack.verify.inputs.pair import Pair


def _equal(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """Two places that state one thing; ``second`` must be ``turned`` of what ``first`` states.

    ``severity`` is that of a difference, ``legal`` the reason where that is not an error; ``unless`` is a place
    that, where it states something, makes any difference legal.
    """

    first: str
    second: str
    turned: Callable[[Any], Any] = _equal
    severity: Severity = "error"
    legal: str = ""
    unless: str = ""


_CHECKPOINT = ("repo", "commit", "adopted", "lock_sha256", "model_sha256", "config_sha256")
_TRACES = {"export": "export", "lm_head_sha256": "head_sha256"} | {
    key: key for key in ("embedding_sha256", "tokenizer_sha256")
}
_REBUILT = "a calibration may be of an older build of an export that kept its name; emit refuses another head"
_WRITTEN_AGAIN = "a tokenizer that was written again means the same in other bytes (TOK002)"
_OTHER_BUILD = "chunks, contexts and settings of a target may change under one head"


def _hidden_states(taps: Any) -> Any:
    return [tap + 1 if type(tap) is int else tap for tap in taps] if isinstance(taps, list) else taps


def _last(value: Any) -> Any:
    return PurePosixPath(value).name if isinstance(value, str) else value


def _parent(value: Any) -> Any:
    return PurePosixPath(value).parent.name if isinstance(value, str) else value


def _traces(report: str, calibration: str, target: str, checkpoint: str) -> Iterator[Twice]:
    """Yield what traces say of drafter and target beside what the report, or its copy in the sidecar, says."""
    identity = f"{report}.{calibration}.identity"
    yield Twice(first=f"{checkpoint}.model_sha256", second=f"{identity}.drafter.model_sha256")
    for theirs, ours in _TRACES.items():
        yield Twice(first=f"{target}.{ours}", second=f"{identity}.target.{theirs}")


_BOUND = "sidecar.forgepack"
_QUANTIZATION, _TARGET, _FILES = f"{_BOUND}.quantization", f"{_BOUND}.target", f"{_BOUND}.package.files"
_CALIBRATION = f"{_QUANTIZATION}.calibration"


def _calibrated() -> Iterator[Twice]:
    """Yield what the binding and the report state twice of checkpoint, traces, recipe and profile."""
    bound, quantization, calibration, target = _BOUND, _QUANTIZATION, _CALIBRATION, _TARGET
    for key in _CHECKPOINT:
        yield Twice(first=f"{bound}.checkpoint.{key}", second=f"{calibration}.checkpoint.{key}")
    for traces in ("traces", "held_out"):
        yield from _traces(calibration, traces, f"{calibration}.target", f"{calibration}.checkpoint")
        yield Twice(first=f"{target}.taps.layer_ids", second=f"{calibration}.{traces}.identity.taps")
    for traces in ("calibration", "held_out"):
        yield from _traces("report.inputs", traces, "report.inputs.target", "report.inputs.checkpoint")
    yield Twice(first="report.inputs.calibration.identity.taps", second="report.inputs.held_out.identity.taps")
    # One recipe, scale and profile.
    yield Twice(first=f"{quantization}.mask_scale", second=f"{quantization}.recipe.mask_scale")
    yield Twice(first=f"{quantization}.mask_scale.deployment", second="sidecar.mask_scale")
    yield Twice(first=f"{quantization}.variant", second=f"{quantization}.recipe.variant")
    yield Twice(first=f"{quantization}.variant", second="sidecar.export", turned=lambda name: f"drafter_{name}")
    yield Twice(first=f"{bound}.profile.sha256", second=f"{quantization}.profile_sha256")


def _placed() -> Iterator[Twice]:
    """Yield what documents state twice of the target and of files."""
    bound, target, files = _BOUND, _TARGET, _FILES
    basis = f"{target}.basis"
    yield Twice(first="sidecar.target_export", second=f"{target}.export", turned=_last, unless=basis)
    yield Twice(first="sidecar.head_export", second=f"{target}.export", turned=_parent, unless=basis)
    yield Twice(first="sidecar.head_export", second=f"{target}.head.file", turned=_last)
    for key in ("bytes", "sha256"):
        yield Twice(first=f"{target}.head.{key}", second=f"{target}.files[export/lm_head.safetensors].{key}")
    yield Twice(first=f"{target}.head.tensors[lm_head.idx].shape", second=f"{target}.embedding.shape")
    yield Twice(first=f"{target}.taps.layer_ids", second=f"{target}.taps.hf_hidden_states", turned=_hidden_states)
    yield Twice(first=f"{target}.mask_row.sha256", second=f"{bound}.package.constants.mask_row.sha256")
    yield Twice(first=f"{bound}.checkpoint.config_sha256", second=f"{files}[config.json].sha256")
    for key in ("config", "model"):
        name = "config.json" if key == "config" else "model.safetensors"
        yield Twice(first=f"source.checkpoint.{key}_sha256", second=f"source.checkpoint.files[{name}].sha256")
    for name in ("config.json", "LICENSE", "NOTICE"):
        yield Twice(first=f"source.checkpoint.files[{name}]", second=f"{files}[{name}]")
    # The report and the file that it is of.
    yield Twice(first="report.recipe.variant", second="tensors.variant")
    traces_sha256 = "report.inputs.calibration.traces_sha256"
    yield Twice(first=traces_sha256, second="tensors.traces", turned=lambda digest: f"sha256:{digest}")


def _exported() -> Iterator[Twice]:
    """Yield what calibration and deployment state, where both name one export."""
    target, calibration = _TARGET, _CALIBRATION
    for ours, theirs in (
        ("head.sha256", "head_sha256"),
        ("embedding.sha256", "embedding_sha256"),
        ("tokenizer.semantic_sha256", "tokenizer_semantic_sha256"),
    ):
        yield _deployed(f"{target}.{ours}", f"{calibration}.target.{theirs}", "warning", _REBUILT)
    for ours, theirs, legal in (
        ("tokenizer.sha256", "tokenizer_sha256", _WRITTEN_AGAIN),
        ("manifest.sha256", "manifest_sha256", _OTHER_BUILD),
        ("config_sha256", "config_sha256", _OTHER_BUILD),
    ):
        yield _deployed(f"{target}.{ours}", f"{calibration}.target.{theirs}", "note", legal)


def _deployed(first: str, second: str, severity: Severity, legal: str) -> Twice:
    return Twice(first=first, second=second, severity=severity, legal=legal)


STATED_TWICE = (*_calibrated(), *_placed(), *_exported())
_STEP = re.compile(r"\[([^\]]+)\]|([^.\[]+)")


def stated(documents: Mapping[str, Any], place: str) -> Any:
    """Return what a place states, None where it states nothing."""
    value: Any = documents
    for match in _STEP.finditer(place):
        value = value.get(match[1] or match[2]) if isinstance(value, Mapping) else None
    return value


def disagreements(documents: Mapping[str, Any], severity: Severity) -> Iterator[tuple[Twice, Any, Any]]:
    """Yield the pairs of a severity that differ, with what was expected and found at the second place."""
    same_export = equal_json_strict(*(stated(documents, f"sidecar.forgepack.{place}.export") for place in _EXPORTS))
    for one in STATED_TWICE:
        if one.severity != severity or (one.legal and not same_export):
            continue
        first, second = stated(documents, one.first), stated(documents, one.second)
        if first is None or second is None or (one.unless and stated(documents, one.unless) is not None):
            continue
        if not equal_json_strict(second, expected := one.turned(first)):
            yield one, expected, second
    if severity == "error":
        yield from _hash_files(documents)


_EXPORTS = ("target", "quantization.calibration.target")


def _hash_files(documents: Mapping[str, Any]) -> Iterator[tuple[Twice, Any, Any]]:
    """Yield each main.hash whose digest is not that of the raw digest of the program beside it."""
    for listing in ("sidecar.forgepack.target.files", "sidecar.forgepack.package.files"):
        files = stated(documents, listing)
        for path in sorted(files) if isinstance(files, Mapping) else ():
            other = path.removesuffix("main.mlirb") + "main.hash"
            one = Twice(first=f"{listing}[{path}].sha256", second=f"{listing}[{other}].sha256")
            program, found = stated(documents, one.first), stated(documents, one.second)
            if not path.endswith("/main.mlirb") or not isinstance(program, str) or found is None:
                continue
            expected = stated_hash_digest(program)
            if found != expected:
                yield one, expected, found


def documents_of(pair: Pair) -> dict[str, Any]:
    """Return what there is of the documents that the table speaks of, by their names in it."""
    found: dict[str, Any] = {}
    if pair.sidecar.available:
        found["sidecar"] = pair.sidecar.value
    if pair.quant_report.available:
        found["report"] = pair.quant_report.value.raw
    if pair.quant.available:
        found["tensors"] = pair.quant.value.metadata
    if pair.origin.available:
        found["source"] = pair.origin.value
    return found
