"""Where two tokenizers differ, derived from one of them and the sidecar's digests of the other's runs of ids.

The other tokenizer is not at hand, only 32 bits for each run of 64 ids. That shows the runs in which ids moved; an
exchange of two tokens, the fault that was seen, is found by trying it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from forgepack.canonical import digest_json

Texts = list[str | None]
_MAX_RUNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What changed: a sentence, and the expected and found text of the first differing id where they are known."""

    message: str
    expected: str = ""
    found: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    count: int
    step: int
    digests: Sequence[str]


def find_moved(tokens: Mapping[int, str], stated: Any) -> Moved | None:
    """Say how ``tokens`` differ from the recorded ids; None when there is no usable record."""
    record = _parse(stated)
    if record is None:
        return None
    count = max(tokens, default=-1) + 1
    texts: Texts = [tokens.get(n) for n in range(max(count, record.count))]
    if count != record.count:
        return Moved(message=f"{count} ids where {record.count} were recorded")
    runs = [n for n, digest in enumerate(record.digests) if _digest(texts, n, record.step) != digest]
    if not runs:
        return Moved(message="every id has its text: settings, merges or steps of the tokenizer differ")
    if len(runs) <= _MAX_RUNS:
        swap = next(_swaps(texts, runs, record), None)
        if swap is not None:
            return _describe_swap(texts, *swap)
    first, last = runs[0] * record.step, min((runs[0] + 1) * record.step, count) - 1
    where = f"{len(runs)} of {len(record.digests)} runs of {record.step} ids differ"
    return Moved(message=f"the first differing id is among {first} to {last}; {where}")


def _describe_swap(texts: Texts, one: int, other: int) -> Moved:
    return Moved(
        message=f"ids {one} and {other} are exchanged: the first differing id is {one}, 2 ids differ",
        expected=f"id {one} is {texts[other]!r}",
        found=f"id {one} is {texts[one]!r}",
    )


def _parse(stated: Any) -> _Record | None:
    """Return the record, or None when it is not of the form that the sidecar's schema demands."""
    if not isinstance(stated, Mapping):
        return None
    count, step, digests = (stated.get(key) for key in ("count", "step", "digests"))
    if type(count) is not int or type(step) is not int or not isinstance(digests, str):
        return None
    if not 0 <= count <= 1 << 24 or not 1 <= step <= 1 << 12 or len(digests) != 8 * -(-count // step):
        return None
    return _Record(count=count, step=step, digests=[digests[n : n + 8] for n in range(0, len(digests), 8)])


def _digest(texts: Texts, run: int, step: int) -> str:
    return digest_json(texts[run * step : (run + 1) * step])[:8]


def _swaps(texts: Texts, runs: Sequence[int], record: _Record) -> Iterator[tuple[int, int]]:
    """Yield exchanges of two ids, each in one of the differing runs, that give every recorded digest."""
    step = record.step
    places = [list(islice(range(run * step, len(texts)), step)) for run in runs]
    for one in places[0]:
        for other in places[-1]:
            if other <= one or texts[one] == texts[other]:
                continue
            texts[one], texts[other] = texts[other], texts[one]
            found = all(_digest(texts, run, step) == record.digests[run] for run in runs)
            texts[one], texts[other] = texts[other], texts[one]
            if found:
                yield one, other
