"""What ``forgepack replay`` found, as the JSON object that schemas/replay.schema.json describes.

It binds what was measured to what it was measured on: digests of the drafter's files, of the target's head, embedding
and tokenizer, and of the traces. No value of it is ever null: a number that could not be had is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from forgepack import __version__
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.target import Target
from forgepack.artifacts.trace_overlap import Fingerprint, compare_fingerprints, take_fingerprint
from forgepack.artifacts.traces import TraceSet
from forgepack.canonical import digest_json
from forgepack.document import DocumentKind
from forgepack.drafter.buckets import Bucket, RingEffect, by_position, ring_effect
from forgepack.drafter.comparison import RECORDED_CONFIDENCE, Measured, Recorded
from forgepack.drafter.open import OpenedDrafter
from forgepack.drafter.replay import ReplayResult
from forgepack.drafter.statistics import BOOTSTRAP_ROUNDS, BOOTSTRAP_SEED, CONFIDENCE, Acceptance, Estimate
from forgepack.errors import MissingError
from forgepack.profile import Profile


def _from_version_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a report of version 1 in today's form: it says neither what calibrated nor what was recorded."""
    unknown = {"calibration": {"state": "unknown"}, "recorded": {"state": "unknown"}}
    return {**raw, "drafters": [{**one, **unknown} for one in raw["drafters"]]}


KIND = DocumentKind(
    name="forgepack.replay",
    title="report of a replay",
    remake="replay again",
    code="replay-report",
    version=2,
    upgrade=_from_version_1,
    form="replay",
)
Fit = Literal["matches", "differs", "absent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetIdentity:
    """What a replay takes of the target, by content."""

    export: str
    head_sha256: str
    embedding_sha256: str
    tokenizer_sha256: str

    def as_json(self) -> dict[str, Any]:
        """Return the digests, and one digest over them."""
        digests = {
            "head_sha256": self.head_sha256,
            "embedding_sha256": self.embedding_sha256,
            "tokenizer_sha256": self.tokenizer_sha256,
        }
        return {"export": self.export, **digests, "sha256": digest_json(digests)}


def identify_target(target: Target) -> TargetIdentity:
    """Hash head and embedding of a target; MissingError when it comes without its export."""
    if target.head is None:
        where = str(target.paths.build)
        raise MissingError("the target's export is missing", where=where, hint="name it with --target-export")
    return TargetIdentity(
        export=target.manifest.export,
        head_sha256=hash_file(target.head.path)[1],
        embedding_sha256=hash_file(target.embedding.path)[1],
        tokenizer_sha256=target.tokenizer.sha256,
    )


def foreign_parts(traces: TraceSet, target: TargetIdentity, profile: Profile) -> tuple[str, ...]:
    """Name what the traces say they were recorded with and what is another one here; nothing for unbound traces."""
    identity = traces.identity
    if identity is None:
        return ()
    pairs = {
        "head": (identity.head_sha256, target.head_sha256),
        "embedding": (identity.embedding_sha256, target.embedding_sha256),
        "tokenizer": (identity.tokenizer_sha256, target.tokenizer_sha256),
        "taps": (identity.taps, profile.geometry.taps),
    }
    return tuple(name for name, (recorded, here) in pairs.items() if recorded != here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished replay: the drafters in order, the reference first, and what each did."""

    profile: Profile
    target: TargetIdentity
    traces: TraceSet
    workload: str | None
    drafters: Sequence[OpenedDrafter]
    measured: Sequence[Measured]


def replay_json(run: Run) -> dict[str, Any]:
    """Return the report of a run."""
    window = run.profile.geometry.window
    reference = run.measured[0].result
    named = {} if run.workload is None else {"workload": run.workload}
    return {
        "schema": KIND.schema,
        "tool": {"name": "forgepack", "version": __version__},
        "profile": {"name": run.profile.name, "sha256": run.profile.digest},
        **named,
        "target": run.target.as_json(),
        "traces": _traces_json(run),
        "statistics": {
            "confidence": CONFIDENCE,
            "rounds": BOOTSTRAP_ROUNDS,
            "seed": BOOTSTRAP_SEED,
            "resampled": "sequences",
        },
        "ring_rows": window,
        "left_out": _left_out_json(run.traces),
        "drafters": [
            _drafter_json(opened, run.traces) | _measured_json(found, reference, window)
            for opened, found in zip(run.drafters, run.measured, strict=True)
        ],
    }


def _traces_json(run: Run) -> dict[str, Any]:
    traces = run.traces
    fit: Fit = "matches"
    if traces.identity is None:
        fit = "absent"
    elif foreign_parts(traces, run.target, run.profile):
        fit = "differs"
    recorded = {} if traces.identity is None else {"export": traces.identity.export}
    return {
        "sha256": traces.digest,
        "identity": fit,
        **recorded,
        "sequences": len(traces.sequences),
        "blocks": traces.blocks,
    }


def _left_out_json(traces: TraceSet) -> dict[str, int]:
    """Count what the file holds and a replay does not use: cycles that no longer fit, rows beyond the tokens."""
    return {
        "cycles": sum(len(s.positions) - s.counted + s.ignored for s in traces.sequences),
        "rows_beyond_tokens": sum(s.beyond for s in traces.sequences),
    }


def _calibration_json(opened: OpenedDrafter, traces: TraceSet) -> dict[str, Any]:
    """Say what the replayed sequences share with those that calibrated a drafter."""
    known = opened.calibrated
    if not isinstance(known, Fingerprint):
        return {"state": known}
    found = compare_fingerprints(take_fingerprint(traces.sequences, every=known.every), known)
    return {"state": "known", "overlap": found.as_json()}


def _drafter_json(opened: OpenedDrafter, traces: TraceSet) -> dict[str, Any]:
    return {
        "path": opened.path.as_posix(),
        "kind": opened.kind,
        "files": dict(opened.files),
        "sha256": opened.sha256,
        "mask_scale": opened.mask_scale,
        "deployed_mask_scale": opened.deployed,
        "head": "target" if opened.head is None else "package",
        "calibration": _calibration_json(opened, traces),
    }


def _measured_json(found: Measured, reference: ReplayResult, window: int) -> dict[str, Any]:
    accepted, positions = found.result.accepted, found.result.schedule
    out: dict[str, Any] = {
        "role": "reference" if found.against is None else "compared",
        "acceptance": _acceptance_json(found.acceptance),
        "as_recorded": found.as_recorded,
        "recorded": _recorded_json(found.recorded),
        "by_position": {"accepted": _buckets_json(by_position(accepted, positions, window), window)},
        "ring": _ring_json({"accepted": ring_effect(accepted, positions, window)}),
        "per_sequence": _sequences_json(found, reference),
    }
    if found.against is not None:
        drafts = len(found.acceptance.at_least)
        alike = [np.asarray(e == drafts, np.int64) for e in found.against.equal]
        blocks = by_position(alike, reference.schedule, window)
        out["by_position"]["agreement"] = _buckets_json(blocks, window)
        out["ring"] |= _ring_json({"agreement": ring_effect(alike, reference.schedule, window)})
        out["difference"] = estimate_json(found.against.difference)
        out["agreement"] = {
            **estimate_json(found.against.agreement.blocks),
            "at_least": list(found.against.agreement.at_least),
            "blocks": int(sum(e.size for e in alike)),
        }
    return out


def _recorded_json(found: Recorded) -> dict[str, Any]:
    if found.outside is None:
        return {"state": "unknown"}
    return {
        "state": "outside" if found.outside else "within",
        "mean": found.mean,
        "blocks": found.blocks,
        "confidence": RECORDED_CONFIDENCE,
        "difference": estimate_json(found.difference),
    }


def _acceptance_json(found: Acceptance) -> dict[str, Any]:
    drafts = len(found.at_least)
    interval = {} if found.interval is None else {"interval": list(found.interval)}
    return {
        "mean": found.mean,
        "standard_error": found.standard_error,
        **interval,
        "at_least": list(found.at_least),
        "histogram": list(found.histogram),
        "blocks": found.blocks,
        "sequences": found.sequences,
        "tokens_per_call": found.mean + 1,
        "draft_acceptance": found.mean / drafts,
    }


def estimate_json(found: Estimate) -> dict[str, Any]:
    """Return a mean with its standard error and, where there is one, its interval."""
    interval = {} if found.interval is None else {"interval": list(found.interval)}
    return {"mean": found.mean, "standard_error": found.standard_error, **interval}


def _buckets_json(buckets: Sequence[Bucket], window: int) -> list[dict[str, Any]]:
    return [
        {
            "from": bucket.low,
            "to": bucket.high,
            "ring": "beyond" if bucket.low >= window else "whole",
            "blocks": bucket.blocks,
            **estimate_json(bucket.value),
        }
        for bucket in buckets
    ]


def _ring_json(effects: Mapping[str, RingEffect | None]) -> dict[str, Any]:
    """Return for each quantity what changes where the context no longer fits the ring."""
    return {
        name: {
            "whole": {"blocks": effect.whole.blocks, **estimate_json(effect.whole.value)},
            "beyond": {"blocks": effect.beyond.blocks, **estimate_json(effect.beyond.value)},
            "change": estimate_json(effect.change),
        }
        for name, effect in effects.items()
        if effect is not None
    }


def _sequences_json(found: Measured, reference: ReplayResult) -> list[dict[str, Any]]:
    out = []
    for number, (walk, base) in enumerate(zip(found.result.sequences, reference.sequences, strict=True)):
        blocks, accepted = walk.positions.size, int(walk.accepted.sum())
        row: dict[str, Any] = {"sequence": number, "blocks": blocks, "accepted": accepted}
        if found.against is not None:
            drafts = len(found.acceptance.at_least)
            row["reference_blocks"] = base.positions.size
            row["equal_blocks"] = int((found.against.equal[number] == drafts).sum())
        out.append(row)
    return out
