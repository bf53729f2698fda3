"""The binding held against what is there: one finding for each leaf that differs.

The binding is the sidecar's ``forgepack`` object; its record of the target is that of an attestation where one holds
(``forgepack.verify.bond``). Rules ask for paths and never for whose statement it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from forgepack.verify.compare import differing, identical, lookup
from forgepack.verify.report import Finding
from forgepack.verify.subject import Pair


def bound(pair: Pair, path: str) -> Any:
    """Return what the binding states at a dotted path, None where it states nothing."""
    part, _, rest = path.partition(".")
    if part != "target":
        return lookup(pair.binding.value, path)
    target = pair.bond.value.target
    return lookup(target, rest) if rest else target


def stated_at(pair: Pair, path: str) -> str:
    """Return the place of a statement of the binding."""
    part, _, rest = path.partition(".")
    if part != "target":
        return pair.place(pair.layout.sidecar, f"forgepack.{path}")
    place = pair.bond.value.place
    return f"{place}.{rest}" if rest else place


def against(pair: Pair, path: str, found: Any, where: str, *, subject: str = "") -> Iterator[Finding]:
    """Yield one finding when ``found``, which lies at ``where``, is not what the binding states at ``path``."""
    expected = bound(pair, path)
    if not identical(found, expected):
        message = f"stated in {stated_at(pair, path)}"
        yield differing(subject or path, where, expected=expected, found=found, message=message)


def leaves(expected: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted path, expected, found) of every leaf in which two JSON values differ, types included."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in sorted({*expected, *found}):
            here = f"{path}.{key}" if path else key
            if key not in found or key not in expected:
                yield here, expected.get(key, "nothing"), found.get(key, "nothing")
            else:
                yield from leaves(expected[key], found[key], here)
    elif not identical(found, expected):
        yield path, expected, found


def must_state(pair: Pair, path: str, expected: Any, *, subject: str = "") -> Iterator[Finding]:
    """Yield a finding for each leaf in which the binding at ``path`` is not what it must be."""
    for inner, wanted, found in leaves(expected, bound(pair, path)):
        here = f"{path}.{inner}" if inner else path
        yield differing(subject or here, stated_at(pair, here), expected=wanted, found=found)
