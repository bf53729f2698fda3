"""Run all mutants of the miniature and print the score: ``python -m tests.mutation.run [--json FILE] [--tiny]``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.mutation.catalogue import all_mutants, legal_reason
from tests.mutation.pairs import miniature_stage, tiny_stage
from tests.mutation.stage import Outcome, Stage

ENDINGS = ("refused", "warned", "elsewhere", "legal", "survived", "crashed")


def judge_share(stage: Stage, share: int, shares: int, only: str = "") -> Iterator[tuple[str, str, str, str, str]]:
    """Yield (subject, ending, mutant, rule, detail) of every ``shares``-th mutant."""
    for number, mutant in enumerate(all_mutants(stage)):
        if number % shares == share and only in mutant.subject:
            yield tell(stage.judge(mutant))


def tell(outcome: Outcome) -> tuple[str, str, str, str, str]:
    """Return an outcome as texts; one that passed is legal with a reason, or survived."""
    mutant = outcome.mutant
    reason = legal_reason(mutant, warned=outcome.ending == "warned")
    ending: str = outcome.ending
    if reason is not None and ending in ("passed", "warned"):
        return mutant.subject, "legal", mutant.name, outcome.rule, reason
    if ending == "passed":
        ending = "survived"
    return mutant.subject, ending, mutant.name, outcome.rule, outcome.detail


def _work(arguments: tuple[str, bool, int, int, str]) -> list[tuple[str, str, str, str, str]]:
    work, tiny, share, shares, only = arguments
    make = tiny_stage if tiny else miniature_stage
    return list(judge_share(make(Path(work) / str(share)), share, shares, only))


def summarise(results: Sequence[tuple[str, str, str, str, str]], seconds: float) -> dict[str, object]:
    """Return the score by subject and by area, and every mutant that was not refused as it should be."""
    subjects: dict[str, Counter[str]] = defaultdict(Counter)
    areas: Counter[str] = Counter()
    legal: dict[str, int] = Counter()
    for subject, ending, _, rule, detail in results:
        subjects[subject][ending] += 1
        areas[rule.rstrip("0123456789") or "none"] += 1
        if ending == "legal":
            legal[detail] += 1
    open_ends = [
        {"mutant": name, "ending": ending, "rule": rule, "detail": detail}
        for _, ending, name, rule, detail in results
        if ending in ("warned", "elsewhere", "survived", "crashed")
    ]
    total = len(results)
    caught = sum(ending in ("refused", "legal") for _, ending, *_ in results)
    return {
        "mutants": total,
        "score": round(caught / max(1, total), 6),
        "seconds": round(seconds, 1),
        "subjects": {name: dict(counts) for name, counts in sorted(subjects.items())},
        "refused_by_area": dict(sorted(areas.items())),
        "legal": dict(sorted(legal.items())),
        "open": open_ends,
    }


def table(summary: dict[str, object]) -> Iterator[str]:
    """Yield the summary's lines."""
    subjects = summary["subjects"]
    assert isinstance(subjects, dict)
    yield f"{'subject':<24}" + "".join(f"{ending:>10}" for ending in ENDINGS)
    for name, counts in subjects.items():
        yield f"{name:<24}" + "".join(f"{counts.get(ending, 0):>10}" for ending in ENDINGS)
    yield f"{summary['mutants']} mutants, score {summary['score']}, {summary['seconds']} s"


def main(arguments: Iterable[str] | None = None) -> int:
    """Run all mutants; 1 when one was not refused by a rule of its area."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the score there")
    parser.add_argument("--tiny", action="store_true", help="use the tests' tiny pair instead of the miniature")
    parser.add_argument("--only", default="", help="subjects that hold this word")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="judge every n-th mutant alone")
    options = parser.parse_args(None if arguments is None else list(arguments))
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as work, ProcessPoolExecutor(options.jobs) as pool:
        shares = options.jobs * options.every
        tasks = [(work, options.tiny, share, shares, options.only) for share in range(options.jobs)]
        results = [one for part in pool.map(_work, tasks) for one in part]
    summary = summarise(results, time.monotonic() - start)
    if options.json is not None:
        options.json.write_text(json.dumps(summary, indent=2, sort_keys=True) + "\n")
    print("\n".join(table(summary)))  # noqa: T201  (a report for people)
    return 1 if summary["open"] else 0


if __name__ == "__main__":
    sys.exit(main())
