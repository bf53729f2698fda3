"""CTR, VOC, NUM of headers, SRC: configs, manifest, sidecar and sources say one thing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.files import hash_file
from tests.verify.factory import EXPORT, lock_checkpoint, tiny_profile, write_layer
from tests.verify.running import by_name, check_of, explain_all, refuse, roots, told, verified
from tests.verify.sabotage import (
    CONFIG,
    HEAD,
    MANIFEST,
    SIDECAR,
    TARGET_CONFIG,
    Case,
    both,
    drop,
    edit,
    header,
    put,
    remove,
    tensor,
    write,
)

_DFLASH = "dflash_config"
_BOUND = "forgepack"
REPORT = "quant/report.json"
LOCK = "checkpoint/checkpoint.lock.json"
CHECKPOINT = "checkpoint/model.safetensors"

CASES = [
    # configs
    Case(name="hidden size", change=put(CONFIG, "hidden_size", value=64), roots=("CTR010",)),
    Case(name="rope base", change=put(CONFIG, "rope_parameters", "rope_theta", value=1e6), roots=("CTR010",)),
    Case(name="no block size", change=drop(CONFIG, _DFLASH, "block_size"), roots=("CTR010",)),
    Case(name="unknown kind", change=put(CONFIG, "architectures", value=["DFlash3DraftModel"]), roots=("CTR010",)),
    Case(name="output multiplier", change=put(CONFIG, "output_multiplier", value=0.196), roots=("CTR011",)),
    Case(name="softcapping", change=put(CONFIG, "final_logit_softcapping", value=20.0), roots=("CTR011",)),
    Case(name="causal", change=put(CONFIG, "is_causal", value=True), roots=("CTR011",)),
    Case(name="tied to an embedding", change=put(CONFIG, "tie_word_embeddings", value=True), roots=("CTR011",)),
    Case(name="tokens of a block", change=put(CONFIG, _DFLASH, "num_speculative_tokens", value=8), roots=("CTR011",)),
    Case(name="unknown key", change=put(CONFIG, _DFLASH, "d2t", value=[1]), roots=("CTR011",)),
    Case(name="two rope bases", change=put(CONFIG, "rope_theta", value=1e6), roots=("CTR012",)),
    Case(name="nested against outer", change=put(TARGET_CONFIG, "hidden_size", value=64), roots=("CTR012",)),
    Case(
        name="target's hidden size",
        change=put(TARGET_CONFIG, "text_config", "hidden_size", value=64),
        roots=("CTR013",),
    ),
    Case(name="no layer count", change=drop(TARGET_CONFIG, "text_config", "num_hidden_layers"), roots=("CTR017",)),
    Case(name="config's dtype", change=put(CONFIG, "dtype", value="float16"), roots=("WGT005",)),
    Case(name="anything else of the target", change=put(TARGET_CONFIG, "x", value=1), roots=("CTR022",)),
    # manifest
    Case(name="block of the manifest", change=put(MANIFEST, "T", value=4), roots=("CTR014",)),
    Case(name="contexts descending", change=put(MANIFEST, "ctxs", value=[2048, 1024]), roots=("CTR014", "CTR015")),
    Case(name="chunks out of order", change=edit(MANIFEST, lambda m: m["chunks"].reverse()), roots=("CTR015",)),
    Case(
        name="a chunk is missing",
        change=edit(MANIFEST, lambda m: m.update(chunks=m["chunks"][:1])),
        roots=("CTR015",),
    ),
    Case(
        name="no verification entry",
        change=edit(MANIFEST, lambda m: m["chunks"][0]["entries"].remove("v8_1k")),
        roots=("CTR015",),
    ),
    Case(name="taps of a wrong type", change=put(MANIFEST, "taps", value="1"), roots=("CTR016",)),
    Case(name="anything else of the manifest", change=put(MANIFEST, "kv_cache", value={"x": 1}), roots=("CTR020",)),
    Case(name="pending rows below zero", change=put(MANIFEST, "pend", value=-1), roots=("CTR086",)),
    Case(name="pending rows", change=put(MANIFEST, "pend", value=4), roots=("CTR087",)),
    Case(name="version of a text", change=put(MANIFEST, "version", value="1"), roots=("CTR086",)),
    Case(name="length of a number", change=put(MANIFEST, "kv_len", value=5), roots=("CTR086",)),
    Case(name="longer than the context", change=put(MANIFEST, "kv_len", "1024", value=1025), roots=("CTR087",)),
    Case(name="prefill contexts of texts", change=put(MANIFEST, "pctxs", value=["x"]), roots=("CTR086",)),
    Case(name="prefill rows", change=put(MANIFEST, "TP", value=7), roots=("CTR087",), says=("p64_1k",)),
    Case(name="compiled by a number", change=put(MANIFEST, "head", "compiled", value=5), roots=("CTR086",)),
    Case(
        name="two chunks of one package",
        change=edit(MANIFEST, lambda m: m["chunks"][1].update(file=m["chunks"][0]["file"])),
        roots=("CTR087",),
    ),
    Case(
        name="outputs in text order",
        change=edit(MANIFEST, lambda m: m["chunks"][0].update(outputs=["tap3", "tap1", "y"])),
        roots=("TAP023",),
    ),
    Case(
        name="block with a fraction",
        change=put(MANIFEST, "T", value=8.0),
        roots=("CTR016",),
        depth="hash",
        says=("another form",),
    ),
    Case(
        name="no kinds of attention",
        change=both(drop(CONFIG, "layer_types"), drop(CONFIG, "use_sliding_window")),
        roots=("CTR010",),
    ),
    Case(name="another export", change=put(MANIFEST, "export", value="exports/other"), roots=("CTR005", "CTR060")),
    Case(
        name="renamed export folder",
        change=lambda r: (r / "target/export" / EXPORT).rename(r / "target/export/x"),
        roots=("CTR005",),
    ),
    Case(name="undeclared basis", change=put(MANIFEST, "rot1_basis", value="rot1"), roots=("CTR025",)),
    Case(
        name="basis file in the export", change=write(f"target/export/{EXPORT}/basis.json", b"{}"), roots=("CTR025",)
    ),
    # sidecar
    Case(name="no key R", change=drop(SIDECAR, "R"), roots=("CTR002",)),
    Case(name="a flag for a number", change=put(SIDECAR, "W", value=True), roots=("CTR002",)),
    Case(name="window", change=put(SIDECAR, "W", value=32), roots=("CTR003",)),
    Case(name="block of the sidecar", change=put(SIDECAR, "T", value=4), roots=("CTR003",)),
    Case(
        name="head of another export",
        change=put(SIDECAR, "head_export", value="other/lm_head.safetensors"),
        roots=("CTR004",),
    ),
    Case(name="target export", change=put(SIDECAR, "target_export", value="other"), roots=("CTR004",)),
    Case(name="mask scale", change=put(SIDECAR, "mask_scale", value=1.0), roots=("NUM001",)),
    Case(name="residual fold", change=put(SIDECAR, "resid_scale", value=128.0), roots=("NUM002",)),
    Case(name="table fold", change=put(SIDECAR, "lut_f", "down", value=0.03125), roots=("NUM002",)),
    Case(name="feature scale", change=drop(SIDECAR, "feat_scale"), roots=("CTR002", "NUM002")),
    Case(
        name="deployed mask scale",
        change=put(SIDECAR, _BOUND, "quantization", "mask_scale", "deployment", value=0.8),
        roots=("NUM007",),
    ),
    Case(name="unattested", change=drop(SIDECAR, _BOUND), roots=("CTR001",)),
    Case(name="binding is no object", change=put(SIDECAR, _BOUND, value=[1]), roots=("CTR001",)),
    Case(
        name="unknown version", change=put(SIDECAR, _BOUND, "schema", value="forgepack.sidecar/99"), roots=("CTR007",)
    ),
    Case(name="another profile", change=put(SIDECAR, _BOUND, "profile", "name", value="mini"), roots=("CTR008",)),
    Case(name="runtime settings", change=put(SIDECAR, _BOUND, "runtime", "compile_mode", value=1), roots=("CTR009",)),
    Case(name="unknown field", change=put(SIDECAR, _BOUND, "x", value=1), depth="hash", roots=("CTR030",)),
    Case(name="empty binding", change=put(SIDECAR, _BOUND, value={}), roots=("CTR001",)),
    # vocabulary
    Case(
        name="vocabulary of the target",
        change=put(TARGET_CONFIG, "text_config", "vocab_size", value=44),
        roots=("VOC001",),
        says=("vocab_size of the drafter 48", "rows of the head 48"),
    ),
    Case(
        name="mask out of range",
        change=put(CONFIG, _DFLASH, "mask_token_id", value=48),
        roots=("VOC003",),
        says=("outside the 48 rows",),
    ),
    Case(
        name="mask on a padding row",
        change=put(CONFIG, _DFLASH, "mask_token_id", value=47),
        roots=("VOC003",),
        says=("padding row",),
    ),
    Case(
        name="mask is the end",
        change=put(CONFIG, _DFLASH, "mask_token_id", value=40),
        roots=("VOC003",),
        says=("end token",),
    ),
    Case(name="mask negative", change=put(CONFIG, _DFLASH, "mask_token_id", value=-1), roots=("VOC003",)),
    Case(
        name="mask absent", change=drop(CONFIG, _DFLASH, "mask_token_id"), roots=("VOC003",), says=("never guessed",)
    ),
    Case(
        name="other end tokens",
        change=put(TARGET_CONFIG, "text_config", "eos_token_id", value=[40, 7]),
        roots=("VOC005",),
    ),
    Case(
        name="no end token at all",
        change=put(TARGET_CONFIG, "text_config", "eos_token_id", value=[]),
        roots=("VOC005",),
    ),
    # sources
    Case(
        name="moved commit in the sidecar",
        change=put(SIDECAR, _BOUND, "checkpoint", "commit", value="f" * 40),
        roots=("SRC016",),
    ),
    Case(
        name="moved commit in the lock", change=put(LOCK, "commit", value="f" * 40), sources=True, roots=("SRC003",)
    ),
    Case(name="another repository", change=put(LOCK, "repo", value="a/b"), sources=True, roots=("SRC003",)),
    Case(name="no lock", change=remove(LOCK), sources=True, roots=("SRC002",)),
    Case(name="ill-formed lock", change=put(LOCK, "files", value=[]), sources=True, roots=("SRC002",)),
    Case(name="lock escapes", change=put(LOCK, "files", 0, "path", value="../x"), sources=True, roots=("PATH001",)),
    Case(
        name="size against the lock",
        change=write("checkpoint/NOTICE", b"x"),
        sources=True,
        roots=("LIC004", "SRC004"),
    ),
    Case(
        name="byte against the lock",
        change=tensor(CHECKPOINT, "norm.weight", lambda v: v * 2),
        depth="hash",
        sources=True,
        roots=("SRC005",),
    ),
    Case(name="no report", change=remove(REPORT), sources=True, roots=("PKG001",)),
    Case(name="ill-formed report", change=drop(REPORT, "method"), sources=True, roots=("SRC010",)),
    Case(
        name="quantized by rounding",
        change=put(REPORT, "method", value="rtn"),
        sources=True,
        roots=("SRC012", "SRC019"),
    ),
    Case(
        name="tensors by rounding",
        change=header("quant/drafter_quant.safetensors", lambda h: h["__metadata__"].update(method="rtn")),
        sources=True,
        roots=("PKG006",),
    ),
    Case(
        name="tensors of another run",
        change=tensor("quant/drafter_quant.safetensors", "fc.weight.lut", lambda v: v * 2),
        depth="hash",
        sources=True,
        roots=("SRC011",),
    ),
    Case(
        name="another origin",
        change=put("drafter/DFLASH2_SOURCE.json", "checkpoint", "repo", value="a/b"),
        roots=("SRC021",),
    ),
    Case(
        name="origin's list of files",
        change=put("drafter/DFLASH2_SOURCE.json", "checkpoint", "files", "NOTICE", "sha256", value="0" * 64),
        depth="hash",
        roots=("PKG014",),
    ),
    Case(
        name="lock names one file in two cases",
        change=edit(LOCK, lambda raw: raw["files"].append({**raw["files"][0], "path": "license"})),
        sources=True,
        roots=("PATH004",),
    ),
    # tensors
    Case(
        name="tensor renamed",
        change=header(CHECKPOINT, lambda h: h.update({"fc.weight_packed": h.pop("fc.weight")})),
        sources=True,
        roots=("SRC004", "WGT001", "WGT002"),
        says=("fc.weight_packed",),
    ),
    Case(
        name="narrowed",
        change=header(CHECKPOINT, lambda h: h["norm.weight"].update(dtype="F16")),
        sources=True,
        roots=("SRC004", "WGT004"),
        says=("float16 overflows",),
    ),
    Case(
        name="another shape",
        change=header(CHECKPOINT, lambda h: h["norm.weight"].update(shape=[4, 8])),
        sources=True,
        roots=("SRC004", "WGT003"),
    ),
    Case(
        name="head of its own",
        change=header(
            "drafter/selector.safetensors",
            lambda h: h.update({"lm_head.weight": h.pop("candidate_selector.successor_codebook")}),
        ),
        roots=("WGT001", "WGT002"),
    ),
    Case(
        name="empty file of tensors",
        change=write(CHECKPOINT, b"\x08\0\0\0\0\0\0\0{}      "),
        sources=True,
        roots=("SRC004", "WGT001"),
    ),
    Case(
        name="tensor with a hostile name",
        change=header(CHECKPOINT, lambda h: h.update({"fc.weight\x1b[2J\u202e": h.pop("fc.weight")})),
        sources=True,
        roots=("SRC004", "WGT001", "WGT002"),
        says=("\\x1b[2J\\u202e",),
    ),
    Case(
        name="no table in the head",
        change=header(HEAD, lambda h: h.update({"lm_head.weight": h.pop("lm_head.lut")})),
        roots=("HEAD001",),
        says=("lm_head.lut", "absent"),
    ),
    Case(
        name="head of another form",
        change=header(HEAD, lambda h: h["lm_head.idx"].update(dtype="I8")),
        roots=("HEAD001",),
    ),
]


@by_name(CASES)
def test_contradictions_are_refused(pair: Path, case: Case) -> None:
    """Each statement that differs is refused by its own rule, and nothing else stands as a cause."""
    refuse(pair, case)


def test_donor_is_known_by_digest(pair: Path) -> None:
    """Weights that the profile lists as wrong are refused, whether the lock, the sidecar or the bytes show them."""
    digest = hash_file(pair / CHECKPOINT)[1]
    profile = tiny_profile(known_bad={digest: "the donor: same shapes, other weights"})
    stated = verified(pair, profile=profile)
    assert "the donor" in told(stated, "SRC001")
    found = verified(pair, "hash", profile=profile, sources=True)
    assert "checkpoint/model.safetensors" in told(found, "SRC008")


def test_withdrawn_package(pair: Path) -> None:
    """A package whose program was withdrawn by digest is refused."""
    digest = hash_file(pair / "drafter/dflash2_lut4_gptq.aimodel/main.mlirb")[1]
    report = verified(pair, "hash", profile=tiny_profile(withdrawn={digest: "wrong folds"}))
    assert "wrong folds" in told(report, "SRC008")


def test_adopted_checkpoint_is_noted(pair: Path) -> None:
    """A lock that was made from a folder is legal; that nobody compared it with the hub is told."""
    lock_checkpoint(pair / "checkpoint", tiny_profile(), adopted=True)
    report = verified(pair, named={"checkpoint": pair / "checkpoint"})
    assert ("fail", "note") == (check_of(report, "SRC007").status, check_of(report, "SRC007").severity)


def test_unbound_traces_and_another_calibration_are_noted(pair: Path) -> None:
    """A calibration without identity or at another scale is legal history, but shown."""
    put(REPORT, "inputs", "calibration", "bound", value=False)(pair)
    put(SIDECAR, _BOUND, "quantization", "mask_scale", "calibration", value=1.0)(pair)
    report = verified(pair, named={"quant": pair / "quant"})
    assert ["fail", "fail"] == [check_of(report, ident).status for ident in ("SRC015", "NUM008")]


@pytest.mark.parametrize("bound", [True, False])
def test_legal_rotated_target(pair: Path, bound: bool) -> None:
    """Where the manifest declares a basis, names may differ: hash identity takes their place, and a note says so."""

    def rotate(manifest: dict[str, Any]) -> None:
        manifest.update(export="exports/rotated", rot1_basis={"name": "rot1", "seed": 7})

    edit(MANIFEST, rotate)(pair)
    if bound:
        from forgepack.artifacts.target import read_manifest

        manifest = read_manifest(pair / "target/coreai")

        def bind(sidecar: dict[str, Any]) -> None:
            target = sidecar[_BOUND]["target"]
            target["manifest"] = {"sha256": manifest.sha256, "content_sha256": manifest.digest}
            target["export"], target["basis"] = "rotated", {"rot1_basis": manifest.basis, "files": {}}

        edit(SIDECAR, bind)(pair)
    report = verified(pair)
    assert "fail" == check_of(report, "CTR026").status
    assert "pass" == check_of(report, "CTR004").status == check_of(report, "CTR005").status
    assert ("pass" if bound else "fail") == check_of(report, "CTR025").status, explain_all(report)


def test_parts_that_lie_apart(pair: Path, other: Path) -> None:
    """Parts named one by one are judged by digest: another target's export under the right name is refused."""
    parts = {"target": None, "model": pair / "target/model", "build": pair / "target/coreai"}
    good = verified(pair, "hash", named={**parts, "export": pair / "target/export" / EXPORT})
    assert "pass" == good.verdict, explain_all(good)
    wrong = verified(pair, "hash", named={**parts, "export": other / "target/export" / EXPORT})
    assert ["HEAD008"] == roots(wrong), explain_all(wrong)


def test_export_that_a_release_leaves_out(pair: Path) -> None:
    """Without the export what needs it is not evaluated, says so, and refuses nothing at depth hash."""
    shutil.rmtree(pair / "target/export")
    report = verified(pair, "hash")
    check = check_of(report, "HEAD008")
    assert ("pass", "not-evaluated", False) == (report.verdict, check.status, check.required)
    assert "the target's export is not there" == check.reason


def test_a_changed_layer_is_found(pair: Path) -> None:
    """Any file of the export counts, not only the head."""
    write_layer(pair / f"target/export/{EXPORT}/layer_03.safetensors", np.random.default_rng(99))
    assert ["CTR023"] == roots(verified(pair, "hash"))


def test_a_lost_file_of_the_export(pair: Path) -> None:
    """A file that was skipped in a copy is missed by name, though what is left agrees with itself."""
    remove(f"target/export/{EXPORT}/layer_05.safetensors")(pair)
    report = verified(pair, "hash")
    assert ["PKG038"] == roots(report)
    assert "no file" in told(report, "CTR023")


def test_an_unbound_file_is_refused(pair: Path) -> None:
    """A file of the build that no digest covers is told; what systems and git leave is not."""
    both(*(write(f"target/coreai/{name}", b"x") for name in ("extra.bin", ".DS_Store", ".gitkeep")))(pair)
    report = verified(pair)
    assert (["CTR024"], 1) == (roots(report), check_of(report, "CTR024").count)


def test_prefill_that_does_not_fit_is_a_warning(pair: Path) -> None:
    """Rows that the drafter does not take at once, and a prefill context without an entry, are told, not refused."""
    put(MANIFEST, "pctxs", value=[1024, 2048])(pair)
    edit(MANIFEST, lambda m: m.update(ctxs=[1024, 2048], TP=32))(pair)
    edit(MANIFEST, lambda m: [c.update(entries=["v8_1k", "v8_2k", "p32_1k"]) for c in m["chunks"]] and None)(pair)
    report = verified(pair)
    assert ["CTR020"] == roots(report), explain_all(report)
    assert ("fail", 3) == (check_of(report, "CTR089").status, check_of(report, "CTR089").count)
    assert "p32_2k" in told(report, "CTR089")


def test_an_unknown_version_of_the_manifest_is_a_note(pair: Path) -> None:
    """Which versions there are is not known: another one is told."""
    put(MANIFEST, "version", value=99)(pair)
    assert "99" in told(verified(pair), "CTR091")


def test_end_tokens_of_the_drafter(pair: Path) -> None:
    """Other end tokens in the drafter's config are a warning; any of the target's pass, one or several."""
    for value, status in ((5, "fail"), ([40, 5], "fail"), ("40", "fail"), ([], "fail"), (41, "pass"), ([41], "pass")):
        put(CONFIG, "eos_token_id", value=value)(pair)
        assert status == check_of(verified(pair), "VOC010").status
