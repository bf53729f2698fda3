"""Real Core ML packages, authored with coremltools' MIL builder: 4-bit tables, int8, states, one or two functions.

Run as a program, because coremltools leaves temporary folders to the interpreter's end, which warns of them.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

INPUTS, OUTPUTS, ROWS = 16, 32, 8
NAMES = ("single", "headless", "double", "stateful")


def build_packages(factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the packages by name, authored by one child process a session; they are never changed.

    ``single`` has one function with logits, ``headless`` one without, ``double`` two that share weights, as a
    drafter has them, ``stateful`` one with a state.
    """
    folder = factory.getbasetemp() / "coreml-packages"
    if not folder.exists():
        folder.mkdir()
        root = Path(__file__).parents[2]
        subprocess.run([sys.executable, "-m", __name__, str(folder)], check=True, cwd=root)
    return {name: folder / f"{name}.mlpackage" for name in NAMES}


def _coremltools() -> Any:
    # coremltools logs eight warnings on Linux at import and draws progress bars.
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    os.environ["TQDM_DISABLE"] = "1"
    import coremltools

    return coremltools


def _matrices(*, head: bool) -> Any:
    """Return a function: a 4-bit palettized matrix with a scale a row, then an int8 matrix."""
    ct = _coremltools()
    from coremltools.converters.mil.mil import Builder, types

    rng = np.random.default_rng(0)
    four = types.nptype_from_builtin(types.uint4)
    indices = rng.integers(0, 16, (OUTPUTS, INPUTS, 1, 1)).astype(four)
    table = np.sort(rng.normal(0, 1, 16)).astype(np.float16).reshape(1, 1, 1, 1, 16, 1)
    scales = rng.uniform(0.1, 0.2, (OUTPUTS, 1, 1, 1)).astype(np.float16)
    codes = rng.integers(-127, 128, (OUTPUTS, OUTPUTS, 1, 1)).astype(np.int8)

    def program(feat: Any) -> Any:
        weight = Builder.constexpr_lut_to_dense(indices=indices, lut=table, name="q_lut")
        weight = Builder.constexpr_blockwise_shift_scale(data=weight, scale=scales, name="q")
        y = Builder.conv(x=feat, weight=weight, pad_type="valid")
        whole = Builder.constexpr_blockwise_shift_scale(data=codes, scale=scales, name="m")
        return Builder.conv(x=y, weight=whole, pad_type="valid", name="logits" if head else "hidden")

    specs = [Builder.TensorSpec((1, INPUTS, 1, ROWS), dtype=types.fp16)]
    return Builder.program(input_specs=specs, opset_version=ct.target.iOS18)(program)


def _cached() -> Any:
    """Return a function that adds its input to a state."""
    ct = _coremltools()
    from coremltools.converters.mil.mil import Builder, types

    def program(x: Any, cache: Any) -> Any:
        value = Builder.add(x=Builder.read_state(input=cache), y=x)
        return Builder.coreml_update_state(state=cache, value=value, name="y")

    specs = [Builder.TensorSpec((1, 8), dtype=types.fp16), Builder.StateTensorSpec((1, 8), dtype=types.fp16)]
    return Builder.program(input_specs=specs, opset_version=ct.target.iOS18)(program)


def _save(program: Any, path: Path, **metadata: str) -> None:
    ct = _coremltools()
    model = ct.convert(
        program,
        source="milinternal",
        convert_to="mlprogram",
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT16,
        compute_units=ct.ComputeUnit.CPU_ONLY,
        skip_model_load=True,
        pass_pipeline=ct.PassPipeline.EMPTY,
    )
    for key, value in metadata.items():
        model.user_defined_metadata[key] = value
    model.save(str(path))


def _save_double(parts: dict[str, Path], path: Path) -> None:
    from coremltools.models.utils import MultiFunctionDescriptor, save_multifunction

    descriptor = MultiFunctionDescriptor()
    for name, part in parts.items():
        descriptor.add_function(str(part), src_function_name="main", target_function_name=name)
    descriptor.default_function_name = next(iter(parts))
    save_multifunction(descriptor, str(path))


def _main(folder: Path) -> None:
    places = {name: folder / f"{name}.mlpackage" for name in NAMES}
    _save(_matrices(head=True), places["single"], policy="lut4_gptq")
    _save(_matrices(head=False), places["headless"])
    _save_double({"draft": places["single"], "ctx64": places["headless"]}, places["double"])
    _save(_cached(), places["stateful"])


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
