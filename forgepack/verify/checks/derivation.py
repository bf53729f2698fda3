"""Constants derived again from their sources by the emitter's own table, to be compared by digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from forgepack.canonical import sha256_hex
from forgepack.errors import ForgepackError, InternalError
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair

if TYPE_CHECKING:
    from forgepack.emit.constant_spec import ConstantSpec

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
    table = constant_table(pair.profile.geometry, pair.profile.recipe)
    proven = proven_indices(pair, table) if kind == HEAD else frozenset()
    for role, spec in table.items():
        if spec.inline or _kind(spec.sources) != kind or role not in roles.constants or role in proven:
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


def proven_indices(pair: Pair, table: Mapping[str, ConstantSpec]) -> frozenset[str]:
    """Return the roles of the head's indices when the heads' content proves them all, none of them otherwise.

    The ranks of a head are its indices where the table ascends strictly. Package and export have the same ranks, row
    for row, when their digests say so. A part's table that is the derived one and ascends strictly comes from one of
    the export that does, too, since the derivation keeps order: then equal ranks are equal indices, and deriving and
    hashing them, as large as the head, would show nothing else.
    """
    if not (pair.package_head.available and pair.export_digest.available):
        return frozenset()
    found, export, roles = pair.package_head.value, pair.export_digest.value, pair.comparison.value.roles
    content = (found.digest.rows, found.digest.columns, found.digest.ranks_sha256)
    if content != (export.rows, export.columns, export.ranks_sha256):
        return frozenset()
    stems = [f"head.{place}" for place in range(pair.profile.geometry.head_parts)]
    own = [(roles.get(f"{stem}.idx"), roles.get(f"{stem}.lut"), table[f"{stem}.idx"].shape[0]) for stem in stems]
    if own != [(part.weight, part.lut, part.rows) for part in found.head.parts]:
        return frozenset()
    tables = (_ascends(pair, table[f"{stem}.lut"]) for stem in stems)
    return frozenset(f"{stem}.idx" for stem in stems) if all(tables) else frozenset()


def _ascends(pair: Pair, spec: ConstantSpec) -> bool:
    """Whether a table of the package is the derived one and ascends strictly."""
    try:
        derived = spec.evaluate(lambda name: source(pair, name))
    except ForgepackError:
        return False
    same = sha256_hex(derived.tobytes()) == pair.roles.value.constants[spec.role].sha256
    return same and bool((np.diff(derived.reshape(-1)) > 0).all())


def expected_records(pair: Pair) -> dict[str, Any]:
    """Return what a sidecar must record of every constant: found in the program, or fixed for an inline number."""
    from forgepack.emit.table import constant_table

    constants = pair.roles.value.constants
    records: dict[str, Any] = {}
    for role, spec in constant_table(pair.profile.geometry, pair.profile.recipe).items():
        if not spec.inline and role not in constants:
            continue  # reported by the rule that finds constants
        record: dict[str, Any] = {"dtype": spec.dtype, "shape": list(spec.shape), "formula": spec.formula}
        if spec.inline:
            record["sha256"] = spec.digest(lambda name: source(pair, name))
        else:
            record["sha256"] = constants[role].sha256
        records[role] = record
    return records


def expected_narrowing(pair: Pair) -> dict[str, Any] | None:
    """Return by role how many values of the sources float16 can't hold exactly, as a sidecar counts them.

    None where a source has not the tensors for it, which the rules of the constants report.
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
    """Return the kind of source that a constant comes from; the recipe's mask scale is not a source of its own."""
    kinds = {name.partition(":")[0] for name in sources} - {"recipe"}
    if len(kinds) > 1:
        raise InternalError("a constant has two kinds of sources", found=", ".join(sorted(sources)))
    return kinds.pop() if kinds else FIXED
