"""What the target's head package computes, beside the numbers that it holds: its wiring, its gain, its run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import SafetensorsFile, read_safetensors
from forgepack.errors import CorruptError, ForgepackError
from forgepack.verify.inputs.lineage import opened_head
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.inputs.sources import guard_links

if TYPE_CHECKING:
    from forgepack.coreai_backend.head_content import HeadContent
    from forgepack.coreai_backend.reader import FoundHead
    from forgepack.coreai_backend.wiring import Wiring

F32 = npt.NDArray[np.float32]

SMALL_FILE = "small.safetensors"
# The final norm's tensor, by the end of its name, and what the gain is of it: exports keep the gain itself, the small
# tensors of the second repository are the checkpoint's, whose norms are zero-centred.
_EXPORT_GAIN = "final_norm"
_CHECKPOINT_NORM = "norm.weight"
_LAYER = "layers."
# A gain may be rounded to float16 in one step or in two: one step of float16 apart.
_ROUNDING = 2.0**-10
SEED = 20_27
_SIZE = 20.0  # rms of the rows that a head is run on, as large as a trained target's


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GainSource:
    """The final norm's factor per channel, (hidden,), as another file of the target has it."""

    where: str
    values: F32


def wiring(pair: Pair) -> Wiring:
    """Follow the head package's graph from x to its logits."""
    from forgepack.coreai_backend.wiring import follow_head

    program, head = pair.head_program.value.program, pair.target_head.value.head
    return follow_head(program, head, pair.profile.geometry.block)


def wired_head(pair: Pair) -> FoundHead:
    """Return the head of the target's head package; CorruptError unless its logits are shown to be that head's."""
    fault = pair.head_wiring.value.fault
    if fault is None:
        return pair.target_head.value
    known = "computes something else" if fault.understood else "has a form that is not known"
    raise CorruptError(
        f"the target's head package {known}",
        where=f"{pair.head_program.value.files.root}: {fault.where}",
        expected=fault.expected,
        found=fault.found,
        code="head-wiring",
    )


def gain_source(pair: Pair) -> GainSource | None:
    """Return the first source of the gain that is there: the export's last layer, then the small tensors.

    None when there is none: a file that can't be read or has no such tensor is none, its own rules check it.
    """
    geometry, target = pair.profile.geometry, pair.sources.target
    if target.export is not None:
        file = _optional(pair, target.export, f"layer_{geometry.target_layers - 1:02d}.safetensors")
        if file is not None and _shape(file, _EXPORT_GAIN) == (geometry.hidden,):
            values = np.asarray(file.array(_EXPORT_GAIN), np.float32)
            return GainSource(where=pair.place(file.path, _EXPORT_GAIN), values=values)
    file = _optional(pair, target.model, SMALL_FILE)
    names = () if file is None else sorted(n for n in file.tensors if _is_final(n))
    if file is not None and len(names) == 1 and _shape(file, names[0]) == (geometry.hidden,):
        values = 1.0 + np.asarray(file.array(names[0]), np.float32)
        return GainSource(where=pair.place(file.path, names[0]), values=values)
    return None


def _is_final(name: str) -> bool:
    return (f".{name}").endswith(f".{_CHECKPOINT_NORM}") and _LAYER not in name


def _optional(pair: Pair, root: Path, name: str) -> SafetensorsFile | None:
    try:
        guard_links(root, root / name, allowed=pair.sources.allow_links)
        return read_safetensors(root / name)
    except ForgepackError:
        return None


def _shape(file: SafetensorsFile, name: str) -> tuple[int, ...]:
    info = file.tensors.get(name)
    return () if info is None or info.dtype not in ("F16", "BF16", "F32") else info.shape


def package_gain(pair: Pair) -> F32:
    """Return the gain (hidden,) that the head package multiplies by."""
    from forgepack.coreai_backend.reader import open_constants

    index, reading = pair.head_wiring.value.gain, pair.head_program.value
    assert index is not None, "a head without a fault has a gain"
    constant = reading.program.constants[index]
    if constant.data is not None:
        return np.array(constant.values(), np.float32).reshape(-1)
    kind = np.float16 if constant.dtype == "F16" else np.float32
    with open_constants(reading, [index], reader=pair.reader) as payloads:
        return np.array(payloads[index].view(kind), np.float32)


def differing_channels(found: F32, expected: F32) -> npt.NDArray[np.int64]:
    """Return the channels in which two gains are further apart than their rounding to float16."""
    near = np.abs(found - expected) <= np.maximum(np.abs(expected), 2.0**-14) * _ROUNDING
    return np.flatnonzero(~near)


def run_head(pair: Pair) -> float:
    """Run the head package on seeded rows and measure its logits against the formula with its own numbers.

    Return how far they are from it, as a share of its largest value; infinite for NaN.
    """
    from forgepack.coreai_backend.execute import open_session

    geometry, reading = pair.profile.geometry, pair.head_program.value
    # RandomState's stream is frozen by NumPy's compatibility policy; Generator's is not.
    shape = (1, geometry.hidden, 1, geometry.block)
    x = (np.random.RandomState(SEED).standard_normal(shape) * _SIZE).astype(np.float16)
    function = pair.wired_head.value.head.function
    program = next(f for f in reading.program.functions if f.name == function)
    with open_session(reading.files, seconds=pair.seconds) as session:
        found = session.call(function, {program.inputs[0].name: x})[program.outputs[0].name]
    rows = x[0, :, 0].astype(np.float32)
    eps = np.float32(pair.head_wiring.value.eps or 0.0)
    normed = rows / np.sqrt((rows * rows).mean(axis=0) + eps) * package_gain(pair)[:, None]
    with opened_head(reading, pair.reader) as content:
        expected = _logits(content, normed)
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - expected).max() / max(float(np.abs(expected).max()), 1e-30))


def _logits(content: HeadContent, normed: F32) -> F32:
    """Return (rows of x, rows of the head): each product of a head row's values and a normed row of x."""
    return np.concatenate(list(_products(content, normed)), axis=0).T


def _products(content: HeadContent, normed: F32) -> Iterator[F32]:
    from forgepack.coreai_backend.head_content import blocks
    from forgepack.packing import unpack_u4

    for start, stop in blocks([content]):
        packed, values = content.block(start, stop)
        ranks = unpack_u4(packed.reshape(-1), (stop - start, content.columns))
        yield np.take_along_axis(values.astype(np.float32), ranks.astype(np.intp), axis=1) @ normed
