"""Author packages of a target: the head that computes, and chunks that stand in for the target's layers.

The real target's packages come from its own release. These are for the embedded miniature, whose head must be found
and compared by content, and whose chunks only need their true entry and output names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from forgepack.coreai_backend.asset_writer import AssetMetadata, WrittenAsset, write_asset
from forgepack.coreai_backend.bindings import Tensor
from forgepack.coreai_backend.blocks import lut_linear, rms_norm
from forgepack.coreai_backend.builder import Function, build_program
from forgepack.coreai_backend.constants import NamedConstant
from forgepack.coreai_backend.ops import LUT_SHAPE, Ops
from forgepack.packing import pack_u4

HEAD_ENTRY = "h8"
HEAD_ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadWeights:
    """A target's head: LUT4 with one table of 16 and one scale a row, behind the final norm.

    ``idx`` U8 (vocab, hidden), ``lut`` F16 (16,), ``scale`` F16 (vocab,), ``gain`` F32 (hidden,): the norm's factor
    itself, 1+w for a zero-centred weight w. ``fold`` moves a power of two from the table to the scales.
    """

    idx: npt.NDArray[np.uint8]
    lut: npt.NDArray[np.float16]
    scale: npt.NDArray[np.float16]
    gain: npt.NDArray[np.float32]
    eps: float
    fold: float = 0.0625


def head_constants(head: HeadWeights, parts: int) -> dict[str, NamedConstant]:
    """Return the constants of a head in ``parts`` row parts of ceil(vocab/parts): idx, lut and scale of each."""
    vocab, hidden = head.idx.shape
    rows = -(-vocab // parts)
    table = (head.lut.astype(np.float32).reshape(LUT_SHAPE) * np.float32(head.fold)).astype(np.float16)
    gain = head.gain.astype(np.float16)
    out = {"norm": NamedConstant(name="norm", dtype="F16", shape=(1, hidden, 1, 1), data=gain)}
    for part in range(parts):
        name = f"head.{part}"
        idx = head.idx[part * rows : (part + 1) * rows]
        count = len(idx)
        scale = head.scale[part * rows : (part + 1) * rows].astype(np.float32) / np.float32(head.fold)
        out[f"{name}.idx"] = NamedConstant(
            name=f"{name}.idx", dtype="U4", shape=(count, hidden, 1, 1), data=pack_u4(idx)
        )
        out[f"{name}.lut"] = NamedConstant(name=f"{name}.lut", dtype="F16", shape=LUT_SHAPE, data=table)
        out[f"{name}.scale"] = NamedConstant(
            name=f"{name}.scale", dtype="F16", shape=(1, count, 1, 1), data=scale.astype(np.float16)
        )
    return out


def author_head_package(folder: Path, head: HeadWeights, *, parts: int, metadata: AssetMetadata) -> WrittenAsset:
    """Write the head package: entry ``h8``, x (1,hidden,1,8) -> logits (8,vocab): final norm, then the head."""
    vocab, hidden = head.idx.shape
    eps_root = float(np.sqrt(head.eps))

    def body(ops: Ops, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        normed = rms_norm(ops, inputs["x"], ops.named("norm"), axis=1, eps_root=eps_root)
        logits = ops.concat([lut_linear(ops, f"head.{part}", normed) for part in range(parts)], 1)
        return {"logits": ops.transpose(ops.reshape(logits, (vocab, HEAD_ROWS)), (1, 0))}

    function = Function(
        name=HEAD_ENTRY,
        inputs=(("x", (1, hidden, 1, HEAD_ROWS)),),
        outputs=(("logits", (HEAD_ROWS, vocab)),),
        body=body,
    )
    program = build_program([function], head_constants(head, parts).__getitem__)
    return write_asset(program, folder, metadata)


def author_chunk_standin(
    folder: Path, *, hidden: int, entries: Mapping[str, int], outputs: Sequence[str], metadata: AssetMetadata
) -> WrittenAsset:
    """Write a chunk that stands in for layers: ``entries`` maps entry names to rows, ``outputs`` names y and taps.

    Each entry takes x (1,hidden,1,rows) and returns each output in that shape: x halved, quartered and so on,
    which belongs to no layer's maths; the metadata must say so.
    """

    def body(ops: Ops, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: ops.mul(inputs["x"], ops.scalar(0.5 ** (n + 1))) for n, name in enumerate(outputs)}

    functions = [
        Function(
            name=name,
            inputs=(("x", (1, hidden, 1, rows)),),
            outputs=tuple((output, (1, hidden, 1, rows)) for output in outputs),
            body=body,
        )
        for name, rows in sorted(entries.items())
    ]
    none: dict[str, NamedConstant] = {}
    return write_asset(build_program(functions, none.__getitem__), folder, metadata)
