"""What is checked of a quantization's inputs before any work, in a dry run too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forgepack.artifacts.trace_features import check_features
from forgepack.artifacts.trace_overlap import (
    Fingerprint,
    Match,
    Overlap,
    compare_fingerprints,
    find_repeats,
    fingerprint_json,
    take_fingerprint,
)
from forgepack.artifacts.traces import TraceSequence, TraceSet
from forgepack.errors import IdentityError
from forgepack.profile import Profile
from forgepack.quantize.sources import Sources, Split, check_rows, identify, split_sequences


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examined:
    """Inputs that belong together: which sequences do what, digests, and what held-out shares with calibration.

    ``fingerprint`` is that of the calibration's sequences, as reports and sidecars hold it.
    """

    split: Split
    identity: Mapping[str, Any]
    fingerprint: Fingerprint
    overlap: Overlap


def examine(sources: Sources, profile: Profile) -> Examined:
    """Check all inputs but the checkpoint's weights; nothing is written.

    Raises UsageError where nothing is left to hold out, IdentityError for parts that do not belong together and for
    sequences that come twice, NumericsError for features that can't be a target's.
    """
    split = split_sequences(sources)
    check_rows(sources, split)
    identity = identify(sources, profile)
    overlap = check_sequences(sources, split)
    for traces, chosen in _sides(sources, split):
        for number in chosen:
            check_features(traces, number)
    fingerprint = take_fingerprint(_sequences(sources.traces, split.calibration))
    return Examined(split=split, identity=identity, fingerprint=fingerprint, overlap=overlap)


def check_sequences(sources: Sources, split: Split) -> Overlap:
    """Return what held-out shares with calibration; IdentityError for a sequence that is there twice, or copied."""
    for traces in filter(None, (sources.traces, sources.held_out)):
        for earlier, later in find_repeats(take_fingerprint(traces.sequences, every=1)):
            raise _repeated(traces, later, f"sequence {earlier} again")
    calibration, held_out = (
        take_fingerprint(_sequences(traces, chosen), every=1) for traces, chosen in _sides(sources, split)
    )
    overlap = compare_fingerprints(held_out, calibration)
    for match in overlap.matches:
        raise _shared(sources, len(split.held_out), overlap, match)
    return overlap


def _sides(sources: Sources, split: Split) -> tuple[tuple[TraceSet, tuple[int, ...]], ...]:
    held_out = sources.held_out or sources.traces
    return (sources.traces, split.calibration), (held_out, split.held_out)


def _sequences(traces: TraceSet, chosen: tuple[int, ...]) -> list[TraceSequence]:
    return [traces.sequences[n] for n in chosen]


def _repeated(traces: TraceSet, number: int, found: str) -> IdentityError:
    return IdentityError(
        "a sequence is in the traces twice",
        where=f"{traces.path}: sequence {number}",
        expected="sequences that all differ",
        found=found,
        hint="leave one of them out: it would count twice, and evaluate itself where one of the two is held out",
        code="traces-overlap",
    )


def _shared(sources: Sources, count: int, overlap: Overlap, match: Match) -> IdentityError:
    held_out = sources.held_out or sources.traces
    how = "is" if match.equal else f"is a copy ({match.share:.0%} of 8-grams) of"
    return IdentityError(
        "held-out sequences are also calibration's",
        where=f"{held_out.path}: sequence {match.mine}",
        expected="generated tokens that calibration never saw",
        found=f"{len(overlap.matches)} of {count}; the first {how} sequence {match.other} of {sources.traces.path}",
        hint="leave them out of one of the two, or record other prompts",
        code="traces-overlap",
    )


def input_json(sources: Sources, found: Examined) -> dict[str, Any]:
    """Return report.json's ``inputs``: the digests, and which sequences of which traces did what."""
    (traces, chosen), (held, judged) = _sides(sources, found.split)
    out = dict(found.identity)
    out["calibration"] = {**_traces_json(traces, chosen), "fingerprint": fingerprint_json(found.fingerprint)}
    source = "split" if sources.held_out is None else "file"
    out["held_out"] = {"source": source, **_traces_json(held, judged), "overlap": found.overlap.as_json()}
    return out


def _traces_json(traces: TraceSet, chosen: tuple[int, ...]) -> dict[str, Any]:
    sequences = [traces.sequences[n] for n in chosen]
    return {
        "traces_sha256": traces.digest,
        "bytes": traces.bytes,
        "bound": traces.identity is not None,
        "identity": None if traces.identity is None else dict(traces.identity.raw),
        "sequences": list(chosen),
        "blocks": sum(int(s.positions.size) for s in sequences),
        "context_rows": sum(s.context_rows for s in sequences),
        "ignored_cycles": sum(s.ignored for s in sequences),
        "rows_beyond_tokens": sum(s.beyond for s in sequences),
    }
