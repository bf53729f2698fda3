"""Describe JSON files: sidecars, reports, locks, profiles, configs. What they say is told, not judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forgepack.artifacts.config import DrafterConfig, read_drafter_config
from forgepack.artifacts.lock import parse_lock
from forgepack.artifacts.quant_report import read_quant_report
from forgepack.artifacts.tokenizer import read_json, read_tokenizer
from forgepack.artifacts.unproven import unproven_sources
from forgepack.canonical import digest_json
from forgepack.errors import CorruptError
from forgepack.limits import MANIFEST_BYTES, QUANT_REPORT_BYTES, SIDECAR_BYTES, SMALL_FILE, TOKENIZER_BYTES
from forgepack.release.inspection import Notes
from forgepack.schema_check import schema_faults

Json = Mapping[str, Any]


def lookup(raw: Any, dotted: str) -> Any:
    """Return the value at a dotted path, None where there is none."""
    for key in dotted.split("."):
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw


def _tell(notes: Notes, raw: Json, **paths: str) -> None:
    """Write down the values at some paths, those that are there."""
    for name, path in paths.items():
        value = lookup(raw, path)
        if value is not None:
            notes.facts[name.replace("_", " ")] = value


def drafter_config_facts(notes: Notes, config: DrafterConfig) -> None:
    """Write down a drafter's config: taps, mask token, sizes, and the profiles that it fits."""
    raw = config.raw
    inner = raw.get("dflash_config")
    notes.identity["config"] = config.sha256
    _tell(
        notes, raw, layers="num_hidden_layers", hidden="hidden_size", vocabulary="vocab_size", window="sliding_window"
    )
    if isinstance(inner, dict):
        _tell(notes, inner, taps="target_layer_ids", block="block_size", mask_token="mask_token_id")  # noqa: S106
    fits = [p.name for p in notes.profiles if not list(config.faults(p.geometry))]
    notes.facts["geometry of profile"] = ", ".join(fits) if fits else "none of the known ones"


def sidecar_facts(notes: Notes, raw: Json) -> None:
    """Write down what a drafter's sidecar says of itself, its target and its sources."""
    bound = raw.get("forgepack")
    _tell(notes, raw, target_export="target_export", head_export="head_export", mask_scale="mask_scale", window="W")
    entries = raw.get("entries")
    if isinstance(entries, dict):
        notes.facts["entries"] = ", ".join(sorted(map(str, entries)))
    if not isinstance(bound, dict):
        notes.facts["bound"] = "no: written by other scripts, nothing in it is a digest"
        return
    _tell(notes, bound, profile="profile.name", method="quantization.method", taps="target.taps.layer_ids")
    # No profile judges here: whether one pins the files is for verify to say.
    for number, sentence in enumerate(unproven_sources(bound, pinned=False)):
        notes.facts["not proven" if number == 0 else f"not proven, {number + 1}"] = sentence
    digests = {
        "program": f"package.files.{lookup(bound, 'package.asset')}/main.mlirb.sha256",
        "checkpoint weights": "checkpoint.model_sha256",
        "head": "target.head.sha256",
        "tokenizer": "target.tokenizer.sha256",
        "quantized drafter": "quantization.drafter_quant_sha256",
    }
    commit = lookup(bound, "checkpoint.commit")
    if commit is not None:
        notes.identity["checkpoint"] = f"{lookup(bound, 'checkpoint.repo')} @ {commit}"
    for name, path in digests.items():
        value = _file_digest(bound, path) if name == "program" else lookup(bound, path)
        if isinstance(value, str):
            notes.identity.setdefault(name, value)


def _file_digest(bound: Json, path: str) -> Any:
    """Return a listed file's digest; file names hold dots, so they are no dotted path."""
    name = path.removeprefix("package.files.").removesuffix(".sha256")
    files = lookup(bound, "package.files")
    entry = files.get(name) if isinstance(files, dict) else None
    return entry.get("sha256") if isinstance(entry, dict) else None


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
    _tell(
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
    _tell(
        notes, raw, name="name", repository="hub.repo", commit="hub.commit", package="package", taps="geometry.taps"
    )
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
    from forgepack.release.describe_folders import release_facts

    notes.title = "a release's inventory"
    release_facts(notes, dict(raw))


def _report(notes: Notes, raw: Json) -> None:
    notes.title = "the report of a verification"
    _tell(notes, raw, verdict="verdict", depth="depth", profile="profile.name", version="version")
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
    _tell(notes, raw, verdict="verdict", policy="policy.path")
    notes.identity |= _texts(raw, {"policy": "policy.sha256", "report": "report.sha256"})


def _attestation(notes: Notes, raw: Json) -> None:
    notes.title = "an attestation of a drafter package for a second target"
    _judge(notes, raw, "attestation")
    _tell(notes, raw, package="drafter.package", target="target.export", workload="evidence.workload")
    _tell(notes, raw, accepted="evidence.drafter.acceptance.mean", agreement="evidence.drafter.agreement.mean")
    notes.identity |= _texts(raw, {"drafter": "drafter.sha256", "evidence": "evidence.sha256", "own": "sha256"})


def _schema_only(title: str, schema: str, **paths: str) -> Callable[[Notes, Json], None]:
    def describe(notes: Notes, raw: Json) -> None:
        notes.title = title
        _judge(notes, raw, schema)
        _tell(notes, raw, **paths)

    return describe


def _plain(title: str, **paths: str) -> Callable[[Notes, Json], None]:
    def describe(notes: Notes, raw: Json) -> None:
        notes.title = title
        _tell(notes, raw, **paths)

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
    "json": _plain("a JSON file of no kind that this tool knows"),
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
    notes.title = "a JSON file of no kind that this tool knows"
    notes.facts["value"] = f"a list of {len(raw)}" if isinstance(raw, list) else type(raw).__name__


def describe_damaged_json(notes: Notes) -> None:
    """Tell why a file that should be JSON is none."""
    notes.title = "a file that should be JSON"
    notes.hash(notes.path)
    notes.attempt(lambda: read_json(notes.path))
