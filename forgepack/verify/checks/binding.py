"""The binding compared with what is there: one finding for each leaf that differs.

The binding is the sidecar's ``forgepack`` object; its record of the target is that of an attestation where one holds
(``forgepack.verify.checks.target_record``). Rules ask for paths and never for whose statement it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from forgepack.facts.fact import Fact, differences
from forgepack.json_values import equal_json_strict, lookup
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair


def bound(pair: Pair, path: str) -> Any:
    """Return what the binding states at a dotted path, None where it states nothing."""
    part, _, rest = path.partition(".")
    if part != "target":
        return lookup(pair.binding.value, path)
    target = pair.target_record.value.target
    return lookup(target, rest) if rest else target


def stated_at(pair: Pair, path: str) -> str:
    """Return the place of a statement of the binding."""
    part, _, rest = path.partition(".")
    if part != "target":
        return pair.place(pair.layout.sidecar, f"forgepack.{path}")
    place = pair.target_record.value.place
    return f"{place}.{rest}" if rest else place


def against(pair: Pair, path: str, found: Any, where: str, *, subject: str = "") -> Iterator[Finding]:
    """Yield one finding when ``found``, which is at ``where``, is not what the binding states at ``path``."""
    expected = bound(pair, path)
    if not equal_json_strict(found, expected):
        message = f"stated in {stated_at(pair, path)}"
        yield differing(subject or path, where, expected=expected, found=found, message=message)


def compared(pair: Pair, part: str, facts: Iterable[Fact]) -> Iterator[Finding]:
    """Yield a finding for each leaf in which a fact is not what the binding states of it, below ``part``."""
    for fact in facts:
        path = f"{part}.{fact.path}"
        for inner, expected, found in differences(bound(pair, path), fact.value):
            subject, stated = fact.subject or path, f"{path}.{inner}" if inner else path
            where = pair.place(fact.file, ".".join(filter(None, (fact.part, inner))))
            message = f"stated in {stated_at(pair, stated)}"
            yield differing(f"{subject} {inner}".rstrip(), where, expected=expected, found=found, message=message)


def must_state(pair: Pair, path: str, expected: Any, *, subject: str = "") -> Iterator[Finding]:
    """Yield a finding for each leaf in which the binding at ``path`` is not what it must be."""
    for inner, wanted, found in differences(expected, bound(pair, path)):
        here = f"{path}.{inner}" if inner else path
        yield differing(subject or here, stated_at(pair, here), expected=wanted, found=found)
