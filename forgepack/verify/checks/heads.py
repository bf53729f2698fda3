"""The head compared by content: where two heads differ, and how many witnesses identify it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.lineage import opened_heads
from forgepack.verify.inputs.pair import Pair

if TYPE_CHECKING:
    from forgepack.coreai_backend.head_content import HeadDigest
    from forgepack.coreai_backend.reader import AssetReading


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSource:
    """One place where the head is: what it is called, where it is, its digest, and how to read it."""

    name: str
    where: str
    digest: HeadDigest
    source: AssetReading | SafetensorsFile


def package_source(pair: Pair) -> HeadSource:
    """Return the head in the drafter package's constants."""
    return HeadSource(
        name="head of the package",
        where=pair.place(pair.layout.asset),
        digest=pair.package_head.value.digest,
        source=pair.program.value,
    )


def export_source(pair: Pair) -> HeadSource:
    """Return the head in the target's export."""
    return HeadSource(
        name="head of the export",
        where=pair.place(pair.head.value.path),
        digest=pair.export_digest.value,
        source=pair.head.value,
    )


def target_source(pair: Pair) -> HeadSource:
    """Return the head in the target's own head package."""
    return HeadSource(
        name="head of the target's head package",
        where=pair.place(pair.head_program.value.files.root),
        digest=pair.target_head.value.digest,
        source=pair.head_program.value,
    )


def head_differences(pair: Pair, left: HeadSource, right: HeadSource) -> Iterator[Finding]:
    """Yield one finding when two heads differ by more than the rounding of folded factors to subnormals."""
    if left.digest == right.digest:
        return
    one, other = left.digest, right.digest
    if (one.rows, one.columns) != (other.rows, other.columns):
        message = f"{one.rows} x {one.columns} against {other.rows} x {other.columns}"
    else:
        with opened_heads(left.source, right.source, pair.reader) as (a, b):
            from forgepack.coreai_backend.head_content import compare_heads

            rows = compare_heads(a, b)
        if rows.rows == 0:
            return
        message = f"{rows.rows} of {one.rows} rows differ, first rows {list(rows.first)}"
    yield Finding(
        subject=left.name,
        where=left.where,
        expected=f"the {right.name} ({right.where}), content {other.digest}",
        found=f"content {one.digest}",
        message=message,
    )


def witnesses(pair: Pair) -> list[str]:
    """Return the comparisons of the package's head with another source, whatever their outcome."""
    sources = {
        "the export's lm_head": pair.export_digest.available,
        "the target's head package": pair.wired_head.available,
        "the sidecar's binding": pair.binding.available,
    }
    return [f"the package against {name}" for name, seen in sources.items() if seen]
