"""A rule is one function with an id, or a row of an area's table; nothing lists the area files by hand.

Ids are stable for ever: a rule may be retired but its id is never used for another.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Required, TypedDict, Unpack

from forgepack.closest import did_you_mean
from forgepack.errors import InternalError, UsageError
from forgepack.verify.findings.report import FIRST_RULE_SET, Depth, Finding, Severity

AREAS = {
    "TAP": "which layers of the target the drafter listens to",
    "HEAD": "the target's output head, shared by the drafter",
    "VOC": "vocabulary, token ids and sizes",
    "TOK": "the tokenizer, by bytes and by meaning",
    "WGT": "weights: which tensors there are and where their values come from",
    "NUM": "numbers: scales, folds, finite values, results",
    "FMT": "file formats, read strictly",
    "PKG": "the Core AI packages and the files around them",
    "PATH": "names, links and special files",
    "SRC": "sources: checkpoint, commit, quantization",
    "LIC": "licences and notices",
    "CTR": "the contract: sidecar, configs, manifest, names",
}
CATCH_ALL = "FMT099"
_ID = re.compile(r"([A-Z]{3,4})[0-9]{3}")
_DEPTHS = {depth.label: depth for depth in Depth}

# Its argument is a Pair, which this module does not know: a pair keeps account of rules, not a rule of pairs.
CheckFunction = Callable[[Any], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: what it demands, how much it weighs, what it reads, and how its faults are mended.

    ``title`` states what holds, ``fails`` what is wrong where it does not: the headline of a failure. Without a text
    of its own a rule says "does not hold:" and its title; one whose title denies something needs its own.
    ``demand`` is the docstring of its function: the sentence that holds when it passes. ``needs`` names the inputs
    without which it says nothing; ``each_of`` those that it checks one by one, so that it passes only if each could
    be read. ``codes`` are the readers' error codes that it reports; ``after`` names rules, by id or by the start of
    one, whose failure explains it. Findings of a rule that is not ``waivable`` count
    whatever waivers, baselines, --ignore and --exit-zero say. A ``late`` rule is evaluated after all others.
    ``since`` is the rule set that it came with. A new rule starts as a warning or a note for one release, so that it
    breaks no gate that passed, unless it ``closes`` a wrong pair that passed before: then that text says which.
    """

    id: str
    title: str
    fails: str
    demand: str
    severity: Severity
    depth: Depth
    needs: tuple[str, ...]
    each_of: tuple[str, ...]
    why: str
    remedy: str
    codes: tuple[str, ...]
    after: tuple[str, ...]
    check: CheckFunction
    waivable: bool
    late: bool
    since: int
    closes: str

    @property
    def area(self) -> str:
        """The letters of the id."""
        return self.id.rstrip("0123456789")

    @property
    def tells_readers_faults(self) -> bool:
        """Whether it reports errors of readers: for it, all other rules must have read what they look at."""
        return bool(self.codes) or self.id == CATCH_ALL

    @property
    def phase(self) -> int:
        """When it is evaluated: 0 first, 1 after those that read, 2 after all others."""
        return 2 if self.late else int(self.tells_readers_faults)


class Properties(TypedDict, total=False):
    """What a rule is declared with; see ``Rule``. By default errors are never waived."""

    title: Required[str]
    why: Required[str]
    remedy: Required[str]
    fails: str
    severity: Severity
    depth: Literal["header", "hash", "lineage", "run"]
    needs: tuple[str, ...]
    each_of: tuple[str, ...]
    codes: tuple[str, ...]
    after: tuple[str, ...]
    waivable: bool
    late: bool
    since: int
    closes: str


def rule(ident: str, **given: Unpack[Properties]) -> Callable[[CheckFunction], Rule]:
    """Turn a function that yields findings into the Rule of that id; its docstring is the demand."""
    return lambda check: row(ident, check, demand=(check.__doc__ or "").strip(), **given)


def row(ident: str, check: CheckFunction, *, demand: str, **given: Unpack[Properties]) -> Rule:
    """Return the Rule of that id: for a line of a table, where the check is another function's."""
    match = _ID.fullmatch(ident)
    if match is None or match[1] not in AREAS:
        raise InternalError("a rule's id is its area and three digits", found=ident)
    severity = given.get("severity", "error")
    return Rule(
        id=ident,
        demand=demand,
        check=check,
        title=given["title"],
        fails=given.get("fails", ""),
        why=given["why"],
        remedy=given["remedy"],
        severity=severity,
        depth=_DEPTHS[given.get("depth", "header")],
        needs=given.get("needs", ()),
        each_of=given.get("each_of", ()),
        codes=given.get("codes", ()),
        after=given.get("after", ()),
        waivable=given.get("waivable", severity != "error"),
        late=given.get("late", False),
        since=given.get("since", FIRST_RULE_SET),
        closes=given.get("closes", ""),
    )


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule of the area files, by area in the contract's order, then by number."""
    package = importlib.import_module("forgepack.verify.rules")
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        rows = getattr(module, "ROWS", ())
        for one in (*rows, *(value for value in vars(module).values() if isinstance(value, Rule))):
            if found.setdefault(one.id, one) is not one:
                raise InternalError("two rules share an id", found=one.id)
    order = list(AREAS)
    return tuple(sorted(found.values(), key=lambda r: (order.index(r.area), r.id)))


def find_rule(ident: str) -> Rule:
    """Return the rule of that id; UsageError names the closest one."""
    rules = {r.id: r for r in all_rules()}
    if ident.upper() in rules:
        return rules[ident.upper()]
    hint = did_you_mean(ident, rules, otherwise="list them with forgepack rules")
    raise UsageError("no such rule", found=ident, hint=hint)


@functools.cache
def _owners() -> dict[str, str]:
    owners: dict[str, str] = {}
    for one in all_rules():
        for code in one.codes:
            if owners.setdefault(code, one.id) != one.id:
                raise InternalError("two rules report one error code", found=code)
    return owners


def owner_of(code: str) -> str:
    """Return the id of the rule that reports a reader's error code; the catch-all of FMT for any other."""
    return _owners().get(code, CATCH_ALL)
