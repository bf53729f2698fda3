"""Depth lineage: heads by content three ways, every constant proven, the program's structure, values."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.coreai_backend.asset_writer import AssetMetadata, write_asset
from forgepack.coreai_backend.builder import build_program
from forgepack.coreai_backend.constants import NamedConstant
from forgepack.coreai_backend.process import Child
from forgepack.emit.graph import drafter_functions
from forgepack.emit.table import constant_table
from forgepack.packing import pack_u4
from forgepack.render import render_report
from forgepack.verify.checks.target_record import NO_ATTESTATION, NO_EVIDENCE
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import NO_BUNDLE, OpenPair
from forgepack.verify.policy.rule import all_rules
from tests.verify.drafter_folder import source_lookup
from tests.verify.factory import EXPORT, tiny_profile
from tests.verify.running import by_name, check_of, explain_all, failed, refuse, roots, told, verified
from tests.verify.sabotage import ASSET, HEAD, SIDECAR, STEM, Case, edit, remove, tensor

HEAD_PACKAGE = "target/coreai/head_T8.aimodel"
CHECKPOINT = "checkpoint/model.safetensors"
QUANT = "quant/drafter_quant.safetensors"


def _rebuild(root: Path, change: Callable[[str, Any], Any], *, functions: Any = None, records: bool = True) -> None:
    """Write the drafter's program again with changed constants, and bring hash and file records up to date."""
    profile = tiny_profile()
    table, sources = constant_table(profile.geometry, profile.recipe), source_lookup(root, profile)

    def constant(role: str) -> NamedConstant:
        spec = table[role]
        data = change(role, np.array(spec.evaluate(sources)))
        return NamedConstant(name=role, dtype=spec.dtype, shape=spec.shape, data=data)

    made = build_program(functions or drafter_functions(profile.geometry, profile.recipe), constant)
    folder = root / "rebuilt.aimodel"
    write_asset(made, folder, AssetMetadata(author="x", licence="x", description="x"))
    shutil.copy(folder / "main.mlirb", root / ASSET / "main.mlirb")
    shutil.copy(folder / "main.hash", root / ASSET / "main.hash")
    if records:
        record_files(root)


def record_files(root: Path) -> None:
    """Bring the sidecar's records of program and hash up to date, as a careful forger would."""

    def change(sidecar: dict[str, Any]) -> None:
        for name in ("main.mlirb", "main.hash"):
            size, digest = hash_file(root / ASSET / name)
            sidecar["forgepack"]["package"]["files"][f"{STEM}.aimodel/{name}"] = {"bytes": size, "sha256": digest}

    edit(SIDECAR, change)(root)


def _edited(role: str) -> Callable[[Path], None]:
    def change(name: str, data: Any) -> Any:
        if name == role:
            raw = data.reshape(-1).view(np.uint8)
            raw[0] ^= 1
        return data

    return lambda root: _rebuild(root, change)


def _rescaled(root: Path) -> None:
    def change(name: str, data: Any) -> Any:
        if name == "layers.0.input_layernorm":
            data[0, :, 0, 1:] = data[0, :, 0, :1]
        return data

    _rebuild(root, change)


def _stale_export(root: Path) -> None:
    """Put another head into the export alone: the build keeps the right one."""
    tensor(HEAD, "lm_head.idx", lambda v: (v + 1) % 16)(root)


CASES = [
    Case(name="matrix edited", change=_edited("layers.1.mlp.up_proj.idx"), roots=("WGT011",)),
    Case(name="scale edited", change=_edited("fc.scale"), roots=("WGT011",)),
    Case(name="norm edited", change=_edited("norm"), roots=("WGT011",)),
    Case(name="base kernel edited", change=_edited("layers.0.mlp_conv.base_kernel.1.0"), roots=("WGT011",)),
    Case(name="fixed constant edited", change=_edited("zeros.row"), roots=("WGT011",)),
    Case(name="mask row edited", change=_edited("mask_row"), roots=("WGT011",)),
    Case(
        name="mask scale not applied",
        change=_rescaled,
        roots=("NUM003", "WGT011"),
        says=("| 0.7 | 1", "first in channel 0, row 1"),
    ),
    Case(name="export's head edited", change=_stale_export, roots=("HEAD003",), says=("48 of 48 rows differ",)),
    Case(
        name="one row of the export's head",
        change=tensor(HEAD, "lm_head.scale", lambda v: v.__setitem__(17, v[17] * 2)),
        roots=("HEAD003",),
        says=("1 of 48 rows differ, first rows [17]",),
    ),
]


@by_name(CASES)
def test_edited_content_is_refused(pair: Path, case: Case) -> None:
    """An edited constant or head is refused by content, though every file record was brought up to date."""
    refuse(pair, Case(name=case.name, change=case.change, roots=case.roots, says=case.says, depth="lineage"))


def test_edited_matrix_against_its_sources(pair: Path) -> None:
    """With quant and checkpoint at hand an edited constant is refused even if the sidecar's record follows it."""
    _edited("layers.1.mlp.up_proj.idx")(pair)
    report = verified(pair, "lineage")
    found = check_of(report, "WGT011").findings[0].expected

    def follow(sidecar: dict[str, Any]) -> None:
        record = sidecar["forgepack"]["package"]["constants"]["layers.1.mlp.up_proj.idx"]
        record["sha256"] = _program_digest(pair)

    assert found
    edit(SIDECAR, follow)(pair)
    assert "pass" == check_of(verified(pair, "lineage"), "WGT011").status
    report = verified(pair, "lineage", sources=True)
    assert ["WGT012"] == roots(report), explain_all(report)
    assert "pack4(quant:layers.1.mlp.up_proj.weight.idx)" in told(report, "WGT012")


def _program_digest(root: Path) -> str:
    """Return the digest of the edited matrix as it stands in the rebuilt program."""
    indices = np.array(read_safetensors(root / QUANT).array("layers.1.mlp.up_proj.weight.idx"))
    packed = pack_u4(indices)
    packed.reshape(-1)[0] ^= 1
    return hashlib.sha256(packed.tobytes()).hexdigest()


def test_stale_head_throughout_the_package(pair: Path, other: Path) -> None:
    """A package built with another head, its sidecar in agreement, is refused by the target on both sides."""
    head = source_lookup(other, tiny_profile())
    table = constant_table(tiny_profile().geometry, tiny_profile().recipe)

    def stale(role: str, data: Any) -> Any:
        return table[role].evaluate(head) if role.startswith("head.") else data

    _rebuild(pair, stale)
    report = verified(pair, "lineage")
    assert "HEAD003" in roots(report), explain_all(report)
    assert {"HEAD003", "HEAD004", "HEAD009", "WGT015"} <= failed(report)
    assert "pass" == check_of(report, "HEAD005").status


def test_stale_head_package_of_the_target(pair: Path, other: Path) -> None:
    """The target's own head package counts as a witness of its own."""
    shutil.rmtree(pair / HEAD_PACKAGE)
    shutil.copytree(other / HEAD_PACKAGE, pair / HEAD_PACKAGE)
    report = verified(pair, "lineage")
    assert ["HEAD004"] == roots(report), explain_all(report)
    assert {"HEAD004", "HEAD005"} <= failed(report)


def test_head_without_the_export(pair: Path) -> None:
    """Without the export, head package and binding still identify the head twice."""
    remove("target/export")(pair)
    report = verified(pair, "lineage")
    assert "pass" == report.verdict, explain_all(report)
    lost = {ident: check_of(report, ident) for ident in ("HEAD003", "HEAD005", "WGT015")}
    assert {("not-evaluated", False)} == {(c.status, c.required) for c in lost.values()}


def test_head_identified_once_is_not_enough(foreign: Path, tmp_path: Path) -> None:
    """Without export and binding only one comparison is left: that does not identify a head."""
    root = Path(shutil.copytree(foreign, tmp_path / "pair"))
    shutil.rmtree(root / "target/export")
    report = verified(root, "lineage")
    assert {"CTR001", "HEAD006"} == failed(report), explain_all(report)


@pytest.mark.parametrize("fault", ["headless", "extra operation", "wires crossed"])
def test_another_program_is_refused(pair: Path, fault: str) -> None:
    """A program with another structure is refused by what differs: outputs, operations or wires."""
    profile = tiny_profile()
    draft, prefill = drafter_functions(profile.geometry, profile.recipe)
    if fault == "headless":
        outputs = tuple(port for port in draft.outputs if port[0] != "logits")
        body = draft.body
        cut = replace(
            draft,
            outputs=outputs,
            body=lambda ops, x: {name: value for name, value in body(ops, x).items() if name != "logits"},
        )
    elif fault == "extra operation":
        body = draft.body
        cut = replace(
            draft,
            body=lambda ops, x: {n: ops.mul(v, ops.scalar(2.0)) if n == "hp" else v for n, v in body(ops, x).items()},
        )
    else:
        body = draft.body
        crossed = {"k_new0": "v_new0", "v_new0": "k_new0"}
        cut = replace(draft, body=lambda ops, x: _renamed(body(ops, x), crossed))
    _rebuild(pair, lambda _, data: data, functions=(cut, prefill))
    report = verified(pair, "lineage")
    expected = {"headless": "PKG018", "extra operation": "PKG019", "wires crossed": "PKG019"}[fault]
    assert expected in roots(report), explain_all(report)
    assert "fail" == check_of(report, "PKG021").status


def _renamed(values: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}


VALUES = [
    Case(
        name="NaN",
        change=tensor(CHECKPOINT, "fc.weight", lambda v: v.__setitem__((1, 2), float("nan"))),
        roots=("NUM004",),
        says=("1 values, first at flat index 98",),
    ),
    Case(
        name="infinity",
        change=tensor(QUANT, "fc.weight.scale", lambda v: v.__setitem__(3, float("inf"))),
        roots=("NUM004",),
    ),
    Case(
        name="all zero",
        change=tensor(CHECKPOINT, "fc.weight", lambda v: v * 0),
        roots=("NUM005",),
        says=("all values are zero",),
    ),
    Case(
        name="last quarter zero",
        change=tensor(CHECKPOINT, "fc.weight", lambda v: v.__setitem__(slice(24, None), 0)),
        roots=("NUM005",),
        says=("all zero",),
    ),
    Case(
        name="constant",
        change=tensor(CHECKPOINT, "fc.weight", lambda v: v * 0 + 1),
        roots=("NUM005",),
        says=("all values are equal",),
    ),
    Case(
        name="index of 16",
        change=tensor(QUANT, "fc.weight.idx", lambda v: v.__setitem__((0, 0), 16)),
        roots=("NUM006",),
    ),
    Case(
        name="codebook of another drafter",
        change=tensor("drafter/selector.safetensors", "candidate_selector.successor_codebook", lambda v: v * 2),
        roots=("WGT020",),
    ),
]


@by_name(VALUES)
def test_values_are_looked_at(pair: Path, case: Case) -> None:
    """Values that no weight has are refused with tensor, count and place."""
    refuse(
        pair,
        Case(name=case.name, change=case.change, roots=case.roots, says=case.says, depth="lineage", sources=True),
    )


def test_another_row_of_the_embedding(pair: Path) -> None:
    """The mask token's row is compared with the package's; any other row by the file's digest."""
    path = pair / "target/model/embed_tokens_fp16.npy"
    table = np.load(path)
    np.save(path, np.concatenate([table[1:], table[:1]]))
    report = verified(pair, "lineage")
    assert ["WGT016"] == roots(report), explain_all(report)


def test_package_of_another_target(pair: Path, other: Path) -> None:
    """A whole drafter folder of another pair is refused by head and mask row; all else hangs below."""
    shutil.rmtree(pair / "drafter")
    shutil.copytree(other / "drafter", pair / "drafter")
    report = verified(pair, "lineage")
    assert ["HEAD003", "WGT016"] == roots(report), explain_all(report)


def test_foreign_package_is_checked_and_told_unattested(foreign: Path) -> None:
    """A package of other scripts: what can be checked passes, and one rule says that nothing attests it."""
    report = verified(foreign, "lineage")
    assert ["CTR001"] == roots(report) == sorted(failed(report)), explain_all(report)
    assert {"pass"} == {check_of(report, i).status for i in ("HEAD003", "HEAD004", "PKG019", "WGT016", "NUM003")}
    lost = [c for c in report.checks if c.status == "not-evaluated" and c.required]
    assert {"CTR001"} == {c.cause for c in lost}


def test_foreign_program_is_not_noise(foreign: Path, tmp_path: Path) -> None:
    """A foreign package of another program: its head is still compared, its operations are lost to one cause."""
    root = Path(shutil.copytree(foreign, tmp_path / "pair"))
    profile = tiny_profile()
    draft, prefill = drafter_functions(profile.geometry, profile.recipe)
    body = draft.body
    scaled = {"hp"}
    slower = replace(
        draft,
        body=lambda ops, x: {n: ops.mul(v, ops.scalar(2.0)) if n in scaled else v for n, v in body(ops, x).items()},
    )
    _rebuild(root, lambda _, data: data, functions=(slower, prefill), records=False)
    report = verified(root, "lineage")
    assert ["CTR001"] == sorted(failed(report)), explain_all(report)
    assert {"pass"} == {check_of(report, i).status for i in ("HEAD003", "HEAD004", "PKG018")}
    assert {"CTR001"} == {check_of(report, i).cause for i in ("PKG019", "WGT010", "NUM003")}


def test_good_pair_passes_every_check(base: Path) -> None:
    """The good pair with all its sources passes every check of this depth, bundles, attestations and notes aside."""
    report = verified(base, "lineage", sources=True)
    assert ("pass", 0) == (report.verdict, report.exit_code), explain_all(report)
    aside = {NO_ATTESTATION, NO_BUNDLE, NO_EVIDENCE}
    seen = [check for check in report.checks if check.depth <= report.depth and check.reason not in aside]
    assert {"pass"} == {check.status for check in seen if check.severity != "note"}
    assert EXPORT in str(base / HEAD)


def test_a_good_pair_is_read_by_one_child(pair: Path, started: list[Child]) -> None:
    """Both packages, the expected program and single constants come from one start of Core AI, ended at the end."""
    report = verified(pair, "lineage", sources=True)
    assert "pass" == report.verdict, explain_all(report)
    assert [True] == [child._process.poll() is not None for child in started]


@pytest.mark.parametrize(("depth", "made"), [("header", False), ("hash", False), ("lineage", True)])
def test_nothing_that_reads_programs_is_loaded_before_it_is_asked(pair: Path, depth: str, *, made: bool) -> None:
    """At header and hash no reader of programs is made, nor what it needs imported for it."""
    found = OpenPair(
        find_sources(pair / "drafter", pair / "target"), tiny_profile(), Depth[depth.upper()], seconds=60
    )
    assert "pass" == verify(found).verdict
    assert made is ("reader" in vars(found))


@pytest.mark.parametrize(
    ("late", "until"),
    [
        ("expected", "digests"),
        ("digests", "target_programs"),
        ("tokenizer", "digests"),
        ("export_digest", "tokenizer"),
    ],
)
def test_a_report_is_the_same_whatever_is_read_last(pair: Path, late: str, until: str) -> None:
    """Programs, bytes and tokenizer are read side by side; a fault of each is told alike in any order."""
    (pair / HEAD_PACKAGE / "main.hash").write_bytes(bytes(32))
    tensor(HEAD, "lm_head.scale", lambda v: v.__setitem__(17, v[17] * 2))(pair)
    expected = render_report(verified(pair, "lineage"), "json")
    found = OpenPair(find_sources(pair / "drafter", pair / "target"), tiny_profile(), Depth.LINEAGE, seconds=60)
    source, other = found.input(late), found.input(until)
    read = source._reader

    def waiting() -> Any:
        other.settle()
        return read()

    source._reader = waiting
    assert expected == render_report(verify(found), "json")


def test_rules_are_evaluated_while_bytes_are_read(pair: Path) -> None:
    """Every rule that needs no input of more than headers is evaluated though no digest is there yet."""
    found = OpenPair(find_sources(pair / "drafter", pair / "target"), tiny_profile(), Depth.LINEAGE, seconds=60)
    rules = [one for one in all_rules() if one.phase == 0 and one.depth <= Depth.LINEAGE]
    needs = {one.id: {found.input(name).depth for name in (*one.needs, *one.each_of)} for one in rules}
    early = {ident for ident, depths in needs.items() if depths <= {Depth.HEADER}}
    assert {"CTR030", "HEAD010", "NUM004"} <= early
    told: set[str] = set()
    reached = threading.Event()
    read = found.digests._reader

    def tell(ident: str) -> None:
        told.add(ident)
        if told >= early:
            reached.set()

    def waiting() -> Any:
        assert reached.wait(20), f"not evaluated: {sorted(early - told)}"
        return read()

    found.digests._reader = waiting
    assert "pass" == verify(found, progress=tell).verdict


def test_a_program_that_kills_its_reader_is_blamed_alone(pair: Path) -> None:
    """The target's packages and the expected program are read though the drafter's program took its child along."""
    program = pair / ASSET / "main.mlirb"
    program.write_bytes(program.read_bytes()[:-4000])
    report = verified(pair, "lineage")
    assert "PKG017" in failed(report), explain_all(report)
    assert ASSET in told(report, "PKG017") or "drafter" in told(report, "PKG017")
    assert "pass" == check_of(report, "HEAD005").status
