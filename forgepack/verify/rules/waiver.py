"""CTR, waivers: what the waivers file accepts is still there, and still accepted."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule
from forgepack.verify.policy.waivers import Waiver

_FILE = "waivers"


def _place(waiver: Waiver, part: str) -> str:
    return f"{_FILE}: {waiver.place}.{part}"


@rule(
    "CTR070",
    title="no waiver has expired",
    fails="a waiver has expired",
    why="a waiver is a promise to mend by a day; past it, nobody has accepted the finding",
    remedy="mend the finding and remove the waiver, or have its owner renew it",
)
def expired(pair: Pair) -> Iterator[Finding]:
    """Today (UTC) is no later than the last day of each waiver."""
    for waiver in pair.acceptance.expired():
        where = _place(waiver, "expires")
        found = f"{waiver.rule} at {waiver.subject}, by {waiver.owner}: {waiver.reason}"
        yield differing("waiver", where, expected=f"to be gone after {waiver.expires}", found=found)


@rule(
    "CTR071",
    title="every waiver matches a finding",
    fails="a waiver matches no finding",
    why="a waiver without a finding is forgotten, or bound to one that has changed and was not looked at again",
    remedy="remove the waiver; where the finding has changed, review it again and bind the waiver to its new digest",
    severity="warning",
    waivable=False,
    late=True,
)
def unused(pair: Pair) -> Iterator[Finding]:
    """Each waiver that holds is met by a finding of its rule, place and digest, where its rule was evaluated."""
    for waiver, digest in pair.acceptance.unused():
        found = "no finding" if digest is None else f"a finding there, but with digest {digest}"
        expected = f"{waiver.rule} at {waiver.subject}, digest {waiver.digest}"
        yield differing("waiver", _place(waiver, "digest"), expected=expected, found=found)
