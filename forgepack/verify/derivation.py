"""Constants derived again from their sources by the emitter's own table, to be compared by digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.errors import ForgepackError, InternalError
from forgepack.verify.compare import differing
from forgepack.verify.report import Finding
from forgepack.verify.subject import Pair

FIXED, QUANT, CHECKPOINT, HEAD, TARGET = "fixed", "quant", "checkpoint", "head", "target"


def source(pair: Pair, name: str) -> npt.NDArray[Any]:
    """Return the array behind a source's name in the emitter's table."""
    from forgepack.emit.table import MASK_ROW, MASK_SCALE

    if name == MASK_SCALE:
        return np.array(pair.profile.recipe.mask_scale, np.float32)
    if name == MASK_ROW:
        return pair.embedding.value.row(pair.profile.geometry.mask_token)
    kind, _, tensor = name.partition(":")
    files = {QUANT: pair.quant, CHECKPOINT: pair.checkpoint, HEAD: pair.head}
    if kind not in files:
        raise InternalError("the constant table names an unknown source", found=name)
    return files[kind].value.array(tensor)


def derived_differences(pair: Pair, kind: str) -> Iterator[Finding]:
    """Yield the constants of one kind of source that are not what their formula gives."""
    from forgepack.emit.table import constant_table

    roles = pair.roles.value
    for role, spec in constant_table(pair.profile.geometry, pair.profile.recipe).items():
        if spec.inline or _kind(spec.sources) != kind or role not in roles.constants:
            continue
        try:
            expected = spec.digest(lambda name: source(pair, name))
        except ForgepackError as err:
            yield differing(role, pair.place(pair.layout.asset, role), expected=spec.formula, found=err.what)
            continue
        found = roles.constants[role].sha256
        if expected != found:
            where = pair.place(pair.layout.asset, role)
            message = f"expected {spec.formula}"
            yield differing(f"constant {role}", where, expected=expected, found=found, message=message)


def expected_records(pair: Pair) -> dict[str, Any]:
    """Return what a sidecar must record of every constant: found in the program, or fixed for an inline number."""
    from forgepack.emit.table import constant_table

    constants = pair.roles.value.constants
    records: dict[str, Any] = {}
    for role, spec in constant_table(pair.profile.geometry, pair.profile.recipe).items():
        if not spec.inline and role not in constants:
            continue  # told by the rule that finds constants
        record: dict[str, Any] = {"dtype": spec.dtype, "shape": list(spec.shape), "formula": spec.formula}
        if spec.inline:
            record["sha256"] = spec.digest(lambda name: source(pair, name))
        else:
            record["sha256"] = constants[role].sha256
        records[role] = record
    return records


def expected_narrowing(pair: Pair) -> dict[str, Any] | None:
    """Return by role how many values of the sources float16 can't hold exactly, as a sidecar counts them.

    None where a source has not the tensors for it, which the rules of the constants tell.
    """
    from forgepack.emit.sidecar_content import narrowed_counts
    from forgepack.emit.table import constant_table

    table = constant_table(pair.profile.geometry, pair.profile.recipe)
    named = {role: spec for role, spec in table.items() if not spec.inline}
    try:
        counts = {role: spec.narrowing(lambda name: source(pair, name)) for role, spec in named.items()}
    except (ForgepackError, ValueError, IndexError):
        return None
    return narrowed_counts({role: lost for role, lost in counts.items() if lost.changed})


def _kind(sources: tuple[str, ...]) -> str:
    """Return the kind of source that a constant comes from; the recipe's mask scale is no source of its own."""
    kinds = {name.partition(":")[0] for name in sources} - {"recipe"}
    if len(kinds) > 1:
        raise InternalError("a constant has two kinds of sources", found=", ".join(sorted(sources)))
    return kinds.pop() if kinds else FIXED
