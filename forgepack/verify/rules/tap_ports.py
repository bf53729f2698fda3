"""TAP, the chunks' programs: the outputs by which a target hands its taps over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

if TYPE_CHECKING:
    from forgepack.coreai_backend.program import FunctionTrace

_REMEDY = "build the target with the taps of this drafter"
_TAP = re.compile(r"tap(\d+)")
_ROWS = re.compile(r"[vp](\d+)(_.*)?")  # v8_8k verifies 8 rows, p64_8k_m5 takes 64 rows of a prompt


@rule(
    "TAP020",
    title="each chunk returns its taps in ascending order, each once",
    why="a runtime that takes taps by position hands fc the columns of another layer, and no shape shows it",
    remedy=_REMEDY,
    depth="lineage",
    needs=("manifest", "target_programs"),
    since=2,
    closes="taps returned in the order of their texts passed",
)
def ascending(pair: Pair) -> Iterator[Finding]:
    """The numbers of the outputs tap<i> of each entry point ascend; y and other outputs may stand anywhere."""
    for file, function in _entry_points(pair):
        numbers = [int(match[1]) for port in function.outputs if (match := _TAP.fullmatch(port.name))]
        if any(one >= other for one, other in pairwise(numbers)):
            where = pair.place(pair.sources.target.build / file, function.name)
            once = len(set(numbers)) == len(numbers)
            message = "sorted as text" if once and numbers == sorted(numbers, key=str) else ""
            expected, found = sorted(set(numbers)), numbers
            yield differing(f"order of taps of {file}", where, expected=expected, found=found, message=message)


@rule(
    "TAP021",
    title="each tap of a chunk is float16 rows of the hidden size",
    why="a tap of another width or type is read past its end, or as other numbers",
    remedy=_REMEDY,
    depth="lineage",
    needs=("manifest", "target_programs"),
    after=("PKG020",),
    since=2,
    closes="a tap of half the hidden size, or of other rows, passed",
)
def shapes(pair: Pair) -> Iterator[Finding]:
    """Each tap, y as the tap of a chunk's last layer too, is float16 (1,hidden,1,rows), rows being the entry's."""
    geometry = pair.profile.geometry
    last = {chunk.file for chunk in pair.manifest.value.chunks if chunk.layers[1] in geometry.taps}
    for file, function in _entry_points(pair):
        rows = _rows(function)
        for number, port in enumerate(function.outputs):
            if not (_TAP.fullmatch(port.name) or (port.name == "y" and file in last)):
                continue
            expected = (1, geometry.hidden, 1, port.shape[-1] if rows is None and port.shape else rows)
            if (port.dtype, port.shape) != ("F16", expected):
                where = pair.place(pair.sources.target.build / file, f"{function.name}.outputs[{number}]")
                found = f"{port.dtype}{list(port.shape)}"
                yield differing(f"tap {port.name}", where, expected=f"F16{list(expected)}", found=found)


@rule(
    "TAP022",
    title="each tap of a chunk is handed over as it is, under its plain name",
    why="an encoding, another layout or a mapped name changes what a tap's buffer holds; tap07 is not tap7",
    remedy=_REMEDY,
    depth="lineage",
    needs=("manifest", "target_programs"),
    after=("TAP021",),
    since=2,
    closes="a tap whose port is delegated under another name passed",
)
def plain(pair: Pair) -> Iterator[Finding]:
    """Outputs tap<i> have a type without encoding, no attribute but their name, and a number without zeros before."""
    from forgepack.coreai_backend.program import plain_declaration

    for file, function in _entry_points(pair):
        where = pair.place(pair.sources.target.build / file, function.name)
        expected, found = dict(plain_declaration(function)), dict(function.declaration)
        for number, port in enumerate(function.outputs):
            match = _TAP.fullmatch(port.name)
            if match is None:
                continue
            if match[1] != str(int(match[1])):
                yield differing("name of a tap", where, expected=f"tap{int(match[1])}", found=port.name)
            for place in (f"outputs[{number}]: type", f"outputs[{number}]: attributes"):
                if port.dtype == "F16" and expected[place] != found.get(place):
                    yield differing(f"tap {port.name}", where, expected=expected[place], found=found.get(place))


def _entry_points(pair: Pair) -> Iterator[tuple[str, FunctionTrace]]:
    for file in sorted({chunk.file for chunk in pair.manifest.value.chunks}):
        for function in pair.target_program(file).program.functions:
            yield file, function


def _rows(function: FunctionTrace) -> int | None:
    """Return how many rows an entry point takes by its name, or by its input x; None where neither says."""
    match = _ROWS.fullmatch(function.name)
    x = next((port.shape[-1] for port in function.inputs if port.name == "x" and port.shape), None)
    return x if match is None else int(match[1])
