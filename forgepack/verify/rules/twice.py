"""SRC, what is stated twice: no document contradicts itself, nor another of the same pair."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from forgepack.verify.checks.twice import disagreements, documents_of
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding, Severity
from forgepack.verify.inputs.layout import SOURCE_FILE
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_OVER = ("sidecar", "quant_report", "origin")


def _place(pair: Pair, place: str) -> str:
    """Return a place of the table with its document's path."""
    document, _, rest = place.partition(".")
    files: dict[str, Path] = {"sidecar": pair.layout.sidecar, "source": pair.sources.drafter / SOURCE_FILE}
    if pair.quant_report.available:
        files["report"] = pair.quant_report.value.path
    if pair.quant.available:
        files["tensors"] = pair.quant.value.path
        rest = f"__metadata__.{rest}" if document == "tensors" else rest
    return pair.place(files[document], rest)


def _findings(pair: Pair, severity: Severity) -> Iterator[Finding]:
    for one, expected, found in disagreements(documents_of(pair), severity):
        where, message = _place(pair, one.second), f"stated again in {_place(pair, one.first)}"
        subject = where.rpartition(": ")[2]
        if one.legal:
            message = f"{message}; {one.legal}"
        yield differing(subject, where, expected=expected, found=found, message=message)


@rule(
    "SRC030",
    title="what the pair's documents state twice, they state alike",
    why="one of two statements is wrong, and each reader believes another",
    remedy="emit the package again from inputs that belong together",
    each_of=_OVER,
    after=(
        *("SRC002", "SRC012", "SRC013", "SRC016", "SRC017", "SRC018", "SRC019", "SRC020", "SRC021", "SRC022"),
        *("TAP", "CTR00", "CTR02", "CTR03", "CTR06", "HEAD", "NUM00", "TOK", "WGT01", "LIC00", "PKG01"),
    ),
    since=2,
    closes="one sidecar that states a digest twice, differently, passed",
)
def stated_alike(pair: Pair) -> Iterator[Finding]:
    """Sidecar, report, tensors' metadata and source record agree wherever two places state one thing."""
    return _findings(pair, "error")


@rule(
    "SRC031",
    title="calibration and deployment of one export state the same of it",
    why="under one export's name the calibration saw another head, embedding or tokenizer than the host will",
    remedy="quantize again for this target, or accept the older calibration",
    severity="warning",
    needs=("sidecar",),
    after=("SRC014",),
    since=2,
)
def one_export(pair: Pair) -> Iterator[Finding]:
    """Head, embedding and meaning of the tokenizer are the package's where the calibration names the same export."""
    return _findings(pair, "warning")


@rule(
    "SRC032",
    title="calibration and deployment of one export are of one build",
    why="another build of the same head is legal; that the calibration saw it should be known",
    remedy="nothing, if the target was built again since the calibration",
    severity="note",
    needs=("sidecar",),
    after=("SRC014", "SRC031"),
    since=2,
)
def one_build(pair: Pair) -> Iterator[Finding]:
    """Manifest, config and bytes of the tokenizer are the package's where the calibration names the same export."""
    return _findings(pair, "note")
