"""Readers' errors as findings: each error code belongs to one rule, which reports it for every input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from forgepack.errors import ForgepackError
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import CATCH_ALL, Properties, Rule, owner_of, row


def finding_of(err: ForgepackError, pair: Pair) -> Finding:
    """Return a reader's error as a finding, with its place shown by role."""
    where = pair.show(err.where or "")
    return Finding(
        subject=where.split(": ")[0],
        expected=err.expected or "",
        found=pair.show(err.found or ""),
        where=where,
        message=err.what,
    )


def reported(pair: Pair, ident: str) -> Iterator[Finding]:
    """Yield every error that rule ``ident`` owns among those that reading the pair at its depth gave."""
    for source in pair.judged():
        for err in source.findings:
            if owner_of(err.code) == ident:
                yield finding_of(err, pair)


def reported_row(ident: str, *, demand: str, **given: Unpack[Properties]) -> Rule:
    """Return the rule that reports the readers' errors that it owns."""
    return row(ident, lambda pair: reported(pair, ident), demand=demand, **given)


def unowned(pair: Pair) -> Iterator[Finding]:
    """Yield every error that no rule owns by its code."""
    return reported(pair, CATCH_ALL)
