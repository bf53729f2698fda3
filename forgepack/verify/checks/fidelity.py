"""The quantized drafter compared with the checkpoint that it was made of, matrix by matrix and row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forgepack.geometry import checkpoint_tensors, quant_tensors
from forgepack.verify.inputs.pair import Pair

if TYPE_CHECKING:
    from forgepack.quantize.fidelity import Deviation


def source_deviations(pair: Pair) -> tuple[Deviation, ...]:
    """Return what of the quantization can't come from the checkpoint; matrices of another form are left to WGT00x."""
    from forgepack.quantize.fidelity import compare_matrices, matrices_of

    quant, checkpoint, geometry = pair.quant.value, pair.checkpoint.value, pair.profile.geometry
    plain = pair.quant_report.available and pair.quant_report.value.method == "rtn"
    stored = {name: ("BF16", shape) for name, shape in checkpoint_tensors(geometry).items()}
    wrong = {
        name.rpartition(".")[0] if file is quant else name
        for file, expected in ((quant, quant_tensors(geometry)), (checkpoint, stored))
        for name, form in expected.items()
        if (info := file.tensors.get(name)) is None or (info.dtype, info.shape) != form
    }
    matrices = matrices_of(quant, checkpoint, geometry, plain=plain)
    return tuple(compare_matrices(one for one in matrices if one.name not in wrong))
