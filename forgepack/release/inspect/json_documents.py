"""Describe JSON files: sidecars, reports, locks, profiles, configs. What they say is shown, not checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from forgepack.artifacts.config import read_drafter_config
from forgepack.artifacts.lock import parse_lock
from forgepack.artifacts.quant_report import read_quant_report
from forgepack.artifacts.tokenizer import read_json, read_tokenizer
from forgepack.canonical import digest_json
from forgepack.errors import CorruptError
from forgepack.json_values import lookup
from forgepack.limits import MANIFEST_BYTES, QUANT_REPORT_BYTES, SIDECAR_BYTES, SMALL_FILE, TOKENIZER_BYTES
from forgepack.release.inspect.document_facts import (
    Json,
    drafter_config_facts,
    release_facts,
    sidecar_facts,
    tell,
)
from forgepack.release.inspect.notes import Notes
from forgepack.schema_check import schema_faults


def _sidecar(notes: Notes, raw: Json) -> None:
    notes.title = "the sidecar of a drafter package"
    sidecar_facts(notes, raw)
    _judge(notes, raw, "sidecar", only=isinstance(raw.get("forgepack"), dict))


def _coreml_sidecar(notes: Notes, raw: Json) -> None:
    notes.title = "the sidecar of a Core ML package: never a substitute for a drafter package's"
    for key in sorted(raw)[:12]:
        notes.facts[key] = raw[key]


def _lock(notes: Notes, raw: Json) -> None:
    notes.title = "a checkpoint's lock"
    lock = notes.attempt(lambda: parse_lock(dict(raw), where=str(notes.path)))
    if lock is not None:
        notes.identity |= {"repository": lock.repo, "commit": lock.commit, "lock": lock.digest}
        stated = ", ".join(f"{f.path} ({f.evidence or 'evidence not recorded'})" for f in lock.files)
        notes.facts |= {"adopted": lock.adopted, "files": stated}
        for file in lock.files:
            notes.know(file.sha256)


def _quant_report(notes: Notes, _: Json) -> None:
    notes.title = "the report of a quantization"
    report = notes.attempt(lambda: read_quant_report(notes.path))
    if report is not None:
        notes.identity |= {"checkpoint": f"{report.repo} @ {report.commit}", "output": report.output_sha256}
        notes.facts |= {
            "method": report.method,
            "variant": report.variant,
            "profile": report.profile,
            "mask scale": report.mask_scale,
            "matrices": len(report.raw["matrices"]),
        }


def _replay(notes: Notes, raw: Json) -> None:
    notes.title = "the report of a replay"
    _judge(notes, raw, "replay")
    tell(
        notes, raw, workload="workload", profile="profile.name", export="target.export", sequences="traces.sequences"
    )
    notes.identity |= _texts(raw, {"traces": "traces.sha256", "target": "target.sha256"})
    for number, one in enumerate(raw.get("drafters", []) if isinstance(raw.get("drafters"), list) else []):
        mean, agreement = lookup(one, "acceptance.mean"), lookup(one, "agreement.mean")
        words = [str(lookup(one, "kind")), f"accepted {mean:.3f}" if isinstance(mean, float) else ""]
        words.append(f"agreement {agreement:.3f}" if isinstance(agreement, float) else "")
        notes.facts[f"drafter {number + 1}"] = ", ".join(word for word in words if word)


def _profile(notes: Notes, raw: Json) -> None:
    notes.title = "a profile"
    notes.identity["profile"] = digest_json(dict(raw))
    tell(notes, raw, name="name", repository="hub.repo", commit="hub.commit", package="package", taps="geometry.taps")
    shipped = {p.name for p in notes.profiles if p.digest == notes.identity["profile"]}
    notes.facts["shipped"] = "yes" if shipped else "no"


def _drafter_config(notes: Notes, _: Json) -> None:
    notes.title = "a drafter's config.json"
    drafter_config_facts(notes, read_drafter_config(notes.path))


def _tokenizer(notes: Notes, _: Json) -> None:
    notes.title = "a tokenizer"
    if notes.path.name != "tokenizer.json":
        return
    found = notes.attempt(lambda: read_tokenizer(notes.path.parent))
    if found is not None:
        notes.facts |= {"tokens": len(found.tokens), "highest id": found.size - 1}
        notes.identity["by meaning"] = found.semantic_sha256


def _release(notes: Notes, raw: Json) -> None:
    notes.title = "a release's inventory"
    release_facts(notes, dict(raw))


def _report(notes: Notes, raw: Json) -> None:
    notes.title = "the report of a verification"
    tell(notes, raw, verdict="verdict", depth="depth", profile="profile.name", version="version")
    checks = raw.get("checks")
    failed = (
        [c.get("id") for c in checks if isinstance(c, dict) and c.get("status") == "fail"]
        if isinstance(checks, list)
        else []
    )
    notes.facts["failed"] = ", ".join(map(str, failed)) or "none"


def _gate(notes: Notes, raw: Json) -> None:
    notes.title = "the result of a gate"
    _judge(notes, raw, "gate")
    tell(notes, raw, verdict="verdict", policy="policy.path")
    notes.identity |= _texts(raw, {"policy": "policy.sha256", "report": "report.sha256"})


def _attestation(notes: Notes, raw: Json) -> None:
    notes.title = "an attestation of a drafter package for a second target"
    _judge(notes, raw, "attestation")
    tell(notes, raw, package="drafter.package", target="target.export", workload="evidence.workload")
    tell(notes, raw, accepted="evidence.drafter.acceptance.mean", agreement="evidence.drafter.agreement.mean")
    notes.identity |= _texts(raw, {"drafter": "drafter.sha256", "evidence": "evidence.sha256", "own": "sha256"})


def _schema_only(title: str, schema: str, **paths: str) -> Callable[[Notes, Json], None]:
    def describe(notes: Notes, raw: Json) -> None:
        notes.title = title
        _judge(notes, raw, schema)
        tell(notes, raw, **paths)

    return describe


def _plain(title: str, **paths: str) -> Callable[[Notes, Json], None]:
    def describe(notes: Notes, raw: Json) -> None:
        notes.title = title
        tell(notes, raw, **paths)

    return describe


def _texts(raw: Json, paths: Mapping[str, str]) -> dict[str, str]:
    found = {name: lookup(raw, path) for name, path in paths.items()}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _judge(notes: Notes, raw: Json, schema: str, *, only: bool = True) -> None:
    """Write down the first differences from the file's own schema."""
    for fault in schema_faults(dict(raw), schema)[:5] if only else ():
        what = f"{notes.title}: not as its schema says"
        notes.fault(
            CorruptError(what, where=fault.path, expected=fault.expected, found=fault.found, code=f"{schema}-schema")
        )


_DESCRIBERS: dict[str, Callable[[Notes, Json], None]] = {
    "sidecar": _sidecar,
    "coreml-sidecar": _coreml_sidecar,
    "checkpoint-lock": _lock,
    "quant-report": _quant_report,
    "replay-report": _replay,
    "gate-result": _gate,
    "gate-policy": _schema_only("a gate's policy", "gate_policy", name="name", workload="workload.name"),
    "attestation": _attestation,
    "timings": _schema_only("timings of a live run", "timings", device="device", verified_on="verify_unit"),
    "source-record": _schema_only(
        "a package's record of its source", "dflash2_source", repository="checkpoint.repo", commit="checkpoint.commit"
    ),
    "profile": _profile,
    "report": _report,
    "release": _release,
    "drafter-config": _drafter_config,
    "tokenizer": _tokenizer,
    "build-lock": _plain("the lock of a recipe's build", profile="profile"),
    "release-record": _plain("what forgepack adds beside a release.json", about="about"),
    "upstream-record": _plain("a release's record of its upstream model", about="about"),
    "command-output": _plain("what a command of forgepack printed", form="schema"),
    "diff": _plain("the result of a comparison", equal="equal", differences="count"),
    "inspection": _plain("the result of an inspection", of="path", kind="kind"),
    "manifest": _plain("a target build's manifest", export="export", taps="taps", block="T", contexts="ctxs"),
    "asset-metadata": _plain("a Core AI asset's metadata", version="assetVersion", author="author"),
    "mlpackage-manifest": _plain("a Core ML package's manifest", root="rootModelIdentifier"),
    "safetensors-index": _plain("an index over several safetensors files", metadata="metadata"),
    "model-config": _plain("a model's config.json", model_type="model_type", architectures="architectures"),
    "json": _plain("a JSON file of unknown kind"),
}
JSON_KINDS = frozenset(_DESCRIBERS)
# The most bytes that the reader of a kind takes: what verify refuses to read, inspect must not call good.
LIMITS = {
    "sidecar": SIDECAR_BYTES,
    "quant-report": QUANT_REPORT_BYTES,
    "manifest": MANIFEST_BYTES,
    **dict.fromkeys(
        ("asset-metadata", "checkpoint-lock", "drafter-config", "model-config", "release-record", "source-record"),
        SMALL_FILE,
    ),
}


def describe_json(kind: str, notes: Notes) -> None:
    """Describe a JSON file of a recognised kind."""
    notes.hash(notes.path)
    raw = read_json(notes.path, LIMITS.get(kind, TOKENIZER_BYTES))
    if isinstance(raw, dict):
        _DESCRIBERS[kind](notes, raw)
        return
    notes.title = "a JSON file of unknown kind"
    notes.facts["value"] = f"a list of {len(raw)}" if isinstance(raw, list) else type(raw).__name__


def describe_damaged_json(notes: Notes) -> None:
    """Note why a file that should be JSON is not JSON."""
    notes.title = "a file that should be JSON"
    notes.hash(notes.path)
    notes.attempt(lambda: read_json(notes.path))
