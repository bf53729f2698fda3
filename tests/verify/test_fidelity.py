"""Rules over the quantization beside its source, over what is stated twice, and over compiled packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from tests.verify.factory import lock_checkpoint, tiny_profile
from tests.verify.sabotage import MANIFEST, SIDECAR, edit, header, put, tensor
from tests.verify.test_emission import QUANT, forge, nudged

CODES = "layers.1.mlp_conv.kernel_projection.weight.int8"
CALIBRATION = ("forgepack", "quantization", "calibration", "target")


def verified(root: Path, depth: Depth = Depth.LINEAGE, **given: Path) -> Report:
    quant, checkpoint = given.get("quant"), given.get("checkpoint")
    found = find_sources(root / "drafter", root / "target", quant=quant, checkpoint=checkpoint)
    return verify(OpenPair(found, tiny_profile(), depth))


def status(report: Report, ident: str) -> str:
    return next(check.status for check in report.checks if check.id == ident)


@pytest.mark.parametrize(
    ("ident", "change"),
    [
        ("WGT030", forge("fc.weight.scale", lambda s: np.r_[-s[:1], s[1:]])),
        ("WGT030", forge("fc.weight.idx", lambda idx: np.r_[idx[1:2], idx[:1], idx[2:]])),
        ("WGT031", forge(CODES, nudged)),
    ],
)
def test_what_the_checkpoint_does_not_give_is_refused(
    pair: Path, ident: str, change: Callable[[Path], object]
) -> None:
    """Whatever the report states: one row of LUT4, one code of INT8."""
    change(pair)
    report = verified(pair, quant=pair / "quant", checkpoint=pair / "checkpoint")
    assert ("fail", None) == (status(report, ident), next(c.cause for c in report.checks if c.id == ident))


@pytest.mark.parametrize("given", ["quant", "checkpoint"])
def test_without_both_nothing_is_said_of_it(pair: Path, given: str) -> None:
    """Where only one of the two is at hand every report says that the rows were not judged, and why."""
    report = verified(pair, Depth.LINEAGE, **{given: pair / given})
    told = [check for check in report.checks if check.id in ("WGT030", "WGT031", "WGT032")]
    assert ["not-evaluated"] * 3 == [check.status for check in told]
    assert all(check.reason.startswith("no --") for check in told)


def test_peaked_rows_are_a_note(pair: Path) -> None:
    """A row of the source whose energy is in one value is no fault of the quantization."""

    def peak(weights: Any) -> Any:
        weights[0] = 0
        weights[0, 3] = ml_dtypes.bfloat16(1)
        return weights

    name = "layers.0.mlp.down_proj.weight"  # 64 columns: the value is eight times the row's root mean square
    tensor("checkpoint/model.safetensors", name, peak)(pair)
    lock_checkpoint(pair / "checkpoint", tiny_profile())
    forge(f"{name}.scale", lambda s: np.r_[np.float16(0.125), s[1:]])(pair)
    rounded = np.where(np.arange(64) == 3, 15, 8)[None]
    forge(f"{name}.idx", lambda idx: np.concatenate([rounded.astype(idx.dtype), idx[1:]]))(pair)
    report = verified(pair, quant=pair / "quant", checkpoint=pair / "checkpoint")
    assert ("fail", "pass") == (status(report, "WGT032"), status(report, "WGT030"))


@pytest.mark.parametrize(("key", "ident"), [("head_sha256", "SRC031"), ("manifest_sha256", "SRC032")])
def test_an_older_build_of_one_export_is_told(pair: Path, key: str, ident: str) -> None:
    """Under one export's name another head is a warning, another manifest a note."""
    put(SIDECAR, *CALIBRATION, key, value="0" * 64)(pair)
    if key == "manifest_sha256":
        put(SIDECAR, *CALIBRATION, "export", value="tiny_lr64mix")(pair)
    assert "fail" == status(verified(pair, Depth.HEADER), ident)


def test_compiled_packages_are_told(pair: Path) -> None:
    """What the runtime loads in place of an asset is named, whether the manifest or the folder tells of it."""
    (pair / "target/coreai/other.aimodelc").mkdir()
    edit(MANIFEST, lambda raw: raw["head"].update(compiled="head.aimodelc"))(pair)
    (check,) = (c for c in verified(pair, Depth.HEADER).checks if c.id == "PKG035")
    assert ["head.aimodelc, which is not there", "other.aimodelc"] == [one.found for one in check.findings]


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F4", "F6_E2M3", "C64"])
@pytest.mark.parametrize("file", [QUANT, "checkpoint/model.safetensors", "drafter/selector.safetensors"])
def test_real_dtypes_are_named(pair: Path, file: str, dtype: str) -> None:
    """Of a tensor in another of the format's types the rule says what was wanted, at every depth."""
    from forgepack.artifacts.safetensors_file import BITS

    def retyped(raw: dict[str, Any]) -> None:
        name = next(n for n, entry in raw.items() if n != "__metadata__" and len(entry["shape"]) == 2)
        begin, end = raw[name]["data_offsets"]
        rows, bits = raw[name]["shape"][0], (end - begin) * 8
        raw[name] |= {"dtype": dtype, "shape": [rows, bits // BITS[dtype] // rows]}
        if rows * raw[name]["shape"][1] * BITS[dtype] != bits:
            pytest.skip("the tensor's bytes make no whole matrix of this type")

    header(file, retyped)(pair)
    report = verified(pair, quant=pair / "quant", checkpoint=pair / "checkpoint")
    check = next(check for check in report.checks if check.id == "WGT004")
    assert ("fail", dtype) == (check.status, check.findings[0].found)
    assert not report.failures
