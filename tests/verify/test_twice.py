"""What documents state twice is compared: every pair of the table, on the pair's own documents."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from forgepack.canonical import dump_canonical
from forgepack.verify.checks.twice import STATED_TWICE, disagreements, documents_of, stated
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from tests.verify.factory import tiny_profile
from tests.verify.sabotage import SIDECAR, put


def open_pair(root: Path, *, whole: bool = True) -> Pair:
    quant, checkpoint = (root / name if whole else None for name in ("quant", "checkpoint"))
    found = find_sources(root / "drafter", root / "target", quant=quant, checkpoint=checkpoint)
    return OpenPair(found, tiny_profile(), Depth.HEADER)


def other(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    if isinstance(value, dict):
        key = next(iter(value))
        return {**value, key: other(value[key])}
    return [*value[:-1], other(value[-1])] if isinstance(value, list) else value / 2


def changed(documents: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the documents with another value at a place."""
    out = copy.deepcopy({name: dict(document) for name, document in documents.items()})
    *path, last = [one or two for one, two in re.findall(r"\[([^\]]+)\]|([^.\[]+)", place)]
    node: Any = out
    for key in path:
        node = node[key]
    node[last] = other(node[last])
    return out


def test_a_good_pair_states_everything_alike(base: Path) -> None:
    """Not one pair of the table differs, and most of the table's places are stated."""
    documents = documents_of(open_pair(base))
    for severity in ("error", "warning", "note"):
        assert [] == list(disagreements(documents, severity))
    told = [one for one in STATED_TWICE if stated(documents, one.first) is not None]
    assert len(told) > 30


def test_each_second_place_is_compared(base: Path) -> None:
    """Another value at any second place is found, by the severity that the table gives it."""
    documents, seen = documents_of(open_pair(base)), 0
    for one in STATED_TWICE:
        if stated(documents, one.first) is None or stated(documents, one.second) is None:
            continue
        seen += 1
        found = [pair.second for pair, _, _ in disagreements(changed(documents, one.second), one.severity)]
        assert one.second in found, one
    assert seen > 25


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("forgepack", "checkpoint", "model_sha256"), "0" * 64),
        (("forgepack", "quantization", "calibration", "checkpoint", "lock_sha256"), "0" * 64),
        (("forgepack", "quantization", "recipe", "variant"), "lut4_rtn"),
    ],
)
def test_a_sidecar_that_contradicts_itself_is_refused(pair: Path, keys: tuple[str, ...], value: str) -> None:
    """Without --quant and --checkpoint, at depth header."""
    put(SIDECAR, *keys, value=value)(pair)
    report = verify(open_pair(pair, whole=False))
    failed = {check.id for check in report.checks if check.status == "fail"}
    assert {"SRC030"} <= failed
    assert 1 == report.exit_code


def test_a_report_that_contradicts_its_tensors_is_refused(pair: Path) -> None:
    """The recipe's variant stands in the tensors' metadata, too."""
    from forgepack.artifacts.safetensors_file import read_safetensors
    from forgepack.artifacts.safetensors_writer import SafetensorsWriter

    path = pair / "quant/drafter_quant.safetensors"
    file = read_safetensors(path)
    arrays = {name: file.array(name).copy() for name in file.tensors}
    specs = {name: (info.dtype, info.shape) for name, info in file.tensors.items()}
    with SafetensorsWriter(path, specs, {"variant": "lut4_rtn"}) as out:
        for name, array in arrays.items():
            out.write(name, array)
    found = [one.second for one, _, _ in disagreements(documents_of(open_pair(pair)), "error")]
    assert ["tensors.variant"] == found


def test_a_program_beside_anothers_hash_is_found(pair: Path) -> None:
    """main.hash follows from main.mlirb: their records do, too."""
    documents = documents_of(open_pair(pair))
    files = "sidecar.forgepack.target.files"
    path = next(path for path in stated(documents, files) if path.endswith("main.hash"))
    place = f"{files}[{path}].sha256"
    found = [one.second for one, _, _ in disagreements(changed(documents, place), "error")]
    assert [place] == found


def test_calibration_on_another_target_is_legal(pair: Path) -> None:
    """Where calibration and deployment name different exports, nothing of them is compared."""
    documents = documents_of(open_pair(pair))
    place = "sidecar.forgepack.quantization.calibration.target"
    moved = changed(changed(documents, f"{place}.export"), f"{place}.head_sha256")
    assert [] == list(disagreements(moved, "warning"))
    assert b"" != dump_canonical(moved["sidecar"])
