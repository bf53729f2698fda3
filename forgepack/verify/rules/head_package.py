"""HEAD, the target's head package: that it computes what its numbers are for.

Its constants are the head's by content (HEAD004, HEAD005). These rules check the program around them: from x over the
final norm to the logits, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from forgepack.json_values import lookup
from forgepack.verify.checks.head_package import differing_channels, gain_source, package_gain
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

# What a config of this family means where it does not state eps.
_DEFAULT_EPS = 1e-6
# Of float16's forms, eps may be flushed to 0, or be off by a few hundredths: a subnormal, the square of a root.
_FLUSHED = 2.0**-24
_EPS_SHARE = 0.05
_RUN_BOUND = 1e-2  # the release's own bound for outputs on the CPU (NUM021)


@rule(
    "HEAD020",
    title="the target's head package computes the head's logits: final norm, then the head's rows in their order",
    why="with the right numbers in another order, or without the norm, the target accepts other tokens",
    remedy="restore the head package from the target's release; a graph of another tool can't be proven",
    depth="lineage",
    needs=("head_wiring",),
    codes=("head-wiring",),
    after=("HEAD021",),
    since=2,
    closes="a head that scrambles rows and has no norm passed",
)
def wiring(pair: Pair) -> Iterator[Finding]:
    """Logits[r, v] is row v of the head times x · Q^-1/2 · gain of row r, Q = mean(x²) + eps, and nothing else."""
    fault = pair.head_wiring.value.fault
    if fault is not None:
        where = pair.place(pair.head_program.value.files.root, fault.where)
        known = "" if fault.understood else "not known: no form of a final norm and head that can be followed"
        subject = "program of the head package"
        yield Finding(subject=subject, expected=fault.expected, found=fault.found, where=where, message=known)
        return
    found, stated = pair.head_wiring.value.eps or 0.0, _stated_eps(pair)
    if not (found < _FLUSHED or abs(found - stated) <= stated * _EPS_SHARE):
        where = pair.place(pair.head_program.value.files.root)
        yield Finding(subject="eps of the final norm", expected=f"{stated:g}", found=f"{found:g}", where=where)


def _stated_eps(pair: Pair) -> float:
    """Return the target config's rms_norm_eps, the family's default where it states none."""
    raw = pair.target_config.value.raw if pair.target_config.available else {}
    value: Any = lookup(raw, "text_config.rms_norm_eps")
    value = lookup(raw, "rms_norm_eps") if value is None else value
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _DEFAULT_EPS


@rule(
    "HEAD021",
    title="the target's head package declares one entry point from x to logits, and nothing else",
    fails="the target's head package does NOT declare one entry point from x to logits alone",
    why="an encoding, a mapped name or another entry point changes what the runtime feeds and reads",
    remedy="restore the head package from the target's release",
    depth="lineage",
    needs=("head_program",),
    since=2,
    closes="a head port with another encoding or name passed",
)
def declaration(pair: Pair) -> Iterator[Finding]:
    """One entry point h<rows>, float16 x (1,hidden,1,rows) and logits (rows,vocab), plain types, no attributes."""
    from forgepack.coreai_backend.program import plain_declaration

    geometry, program = pair.profile.geometry, pair.head_program.value.program
    where, rows = pair.place(pair.head_program.value.files.root), geometry.block
    names = [function.name for function in program.functions]
    if names != [f"h{rows}"] or program.foreign or program.declaration:
        found = ", ".join([*names, *program.foreign, *(f"{key} {text}" for key, text in program.declaration)])
        yield Finding(subject="entry points of the head package", expected=f"h{rows} alone", found=found, where=where)
    ports = (("x", "F16", (1, geometry.hidden, 1, rows)), ("logits", "F16", (rows, geometry.vocab)))
    for function in program.functions:
        found_ports = tuple((p.name, p.dtype, p.shape) for p in (*function.inputs, *function.outputs))
        if found_ports != ports or len(function.inputs) != 1:
            yield differing(f"ports of {function.name}", where, expected=list(ports), found=list(found_ports))
        expected, found_pairs = dict(plain_declaration(function)), dict((*function.declaration, *function.attributes))
        for place in sorted({*expected, *found_pairs}):
            if expected.get(place) != found_pairs.get(place):
                subject = f"{function.name}: {place}"
                one, other = expected.get(place, "none"), found_pairs.get(place, "none")
                yield differing(subject, where, expected=one, found=other)


@rule(
    "HEAD022",
    title="the head package's final norm has the target's gain",
    why="a gain of another layer or export shifts all logits: nothing fails, other tokens are accepted",
    remedy="restore the head package from the target's release, or build it from its export again",
    depth="lineage",
    needs=("wired_head",),
    since=2,
    closes="a head with the gain of another layer passed",
)
def gain(pair: Pair) -> Iterator[Finding]:
    """The gain is that of the export's last layer, or 1 + w of the target's small tensors, to float16's rounding."""
    source = gain_source(pair)
    if source is None:
        return
    found = package_gain(pair)
    channels = differing_channels(found, source.values)
    if channels.size:
        first = int(channels[0])
        yield Finding(
            subject="gain of the final norm",
            expected=f"channel {first}: {source.values[first]:g} ({source.where})",
            found=f"channel {first}: {found[first]:g}",
            where=pair.place(pair.head_program.value.files.root),
            message=f"{channels.size} of {found.size} channels differ",
        )


@rule(
    "HEAD023",
    title="the gain of the head package's final norm has a source to compare with",
    why="what has no source is not checked: the head package's own digest is all that binds it",
    remedy="nothing, or name the target's export, or add model/small.safetensors of its repository",
    severity="note",
    depth="lineage",
    needs=("wired_head",),
    since=2,
)
def gain_judged(pair: Pair) -> Iterator[Finding]:
    """A file of the target has the final norm's gain; without one it is not checked."""
    if gain_source(pair) is None:
        where = pair.place(pair.head_program.value.files.root)
        expected = "final_norm in the export's last layer, or the norm in model/small.safetensors"
        yield Finding(subject="gain of the final norm", expected=expected, found="not checked", where=where)


@rule(
    "HEAD024",
    title="the head package runs, and its logits are near the formula's",
    why="float16 overflows in silence, and what a graph means on paper is not yet what it computes",
    remedy="restore the head package from the target's release",
    depth="run",
    needs=("wired_head", "head_run"),
    since=2,
    closes="a head that overflows float16 passed",
)
def run(pair: Pair) -> Iterator[Finding]:
    """On seeded rows no logit deviates from float32 by more than 1e-2 of the largest; all are finite."""
    share = pair.head_run.value
    if share > _RUN_BOUND:
        found = f"{share:.2e}" if math.isfinite(share) else "values that are not finite, or another shape"
        where = pair.place(pair.head_program.value.files.root)
        yield Finding(subject="logits", expected=f"at most {_RUN_BOUND:g}", found=found, where=where)
