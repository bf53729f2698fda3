"""What a package's binding states of its sources without proof: every report and document of the package says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """One source: ``path`` is where the binding states it, ``wanted`` and ``found`` what it would have to say."""

    path: str
    wanted: Any
    found: Any
    sentence: str


_TRACES = {
    "traces": "The traces that calibrated the drafter do not state of which target and drafter they were recorded.",
    "held_out": "The held-out traces do not state of which target and drafter they were recorded.",
}


def adopted_sources(binding: Mapping[str, Any], *, pinned: bool) -> Iterator[Unproven]:
    """Yield the checkpoint where it was adopted; not where the profile pins its files: then the digests prove it."""
    checkpoint = binding.get("checkpoint")
    adopted = checkpoint.get("adopted") if isinstance(checkpoint, Mapping) else None
    if adopted is True and not pinned:
        sentence = "The drafter's checkpoint was adopted from a folder: its bytes were never compared with the hub's."
        yield Unproven(path="checkpoint.adopted", wanted=False, found=True, sentence=sentence)


def unbound_traces(binding: Mapping[str, Any]) -> Iterator[Unproven]:
    """Yield the traces that carry no identity: nothing says what they were recorded of."""
    quantization = binding.get("quantization")
    calibration = quantization.get("calibration") if isinstance(quantization, Mapping) else None
    for name, sentence in _TRACES.items():
        traces = calibration.get(name) if isinstance(calibration, Mapping) else None
        if isinstance(traces, Mapping) and traces.get("bound") is False:
            path = f"quantization.calibration.{name}.bound"
            yield Unproven(path=path, wanted=True, found=False, sentence=sentence)


def unproven_sources(binding: Mapping[str, Any], *, pinned: bool) -> tuple[str, ...]:
    """Return one sentence for each source of a binding that is not proven."""
    found = (*adopted_sources(binding, pinned=pinned), *unbound_traces(binding))
    return tuple(one.sentence for one in found)
