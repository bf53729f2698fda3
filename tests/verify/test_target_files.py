"""Every file of export, build and model/ is read, bound, or named as not judged: at emission, and when verified."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.errors import ForgepackError
from forgepack.verify.engine import evaluate
from forgepack.verify.findings.report import Check, Depth
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from forgepack.verify.policy.rule import find_rule
from tests.verify.emission import forge_binding, identified
from tests.verify.factory import EXPORT, tiny_profile, write_layer
from tests.verify.running import check_of, explain_all, roots, told, verified
from tests.verify.sabotage import Change, bytes_of, edit, put, remove, write

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 1234\n"
PAGE = b"<!DOCTYPE html><html><body>Sign in</body></html>"
FOLDER = f"target/export/{EXPORT}"
LAYER, MIXER = f"{FOLDER}/layer_03.safetensors", f"{FOLDER}/layer_02_mixer.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiled:
    """A file of the target that is not what it should be: and the rule that is the cause."""

    name: str
    change: Change
    rule: str


def _copy(root: Path) -> None:
    shutil.copyfile(root / MIXER, root / LAYER)


def _zeros(root: Path) -> None:
    with SafetensorsWriter(root / LAYER, {"input_layernorm": ("F16", (16,))}, {}) as out:
        out.write("input_layernorm", np.zeros(16, np.float16))


def _not_finite(root: Path) -> None:
    gain = np.r_[np.float16("nan"), np.linspace(0.9, 1.1, 15).astype(np.float16)]
    with SafetensorsWriter(root / LAYER, {"input_layernorm": ("F16", (16,))}, {}) as out:
        out.write("input_layernorm", gain)


def _mixers_tensors(root: Path) -> None:
    """Exchange a layer's two files in an export whose layers and mixers have tensors of other names."""
    for path in sorted((root / FOLDER).glob("layer_*.safetensors")):
        name = "mixer" if path.stem.endswith("_mixer") is (path.stem[6:8] != "03") else "layer"
        seed = np.random.default_rng(int(path.stem[6:8]) * 2 + (name == "mixer"))
        with SafetensorsWriter(path, {name: ("F16", (16,))}, {}) as out:
            out.write(name, seed.normal(1, 0.1, 16).astype(np.float16))


def _empty_header(root: Path) -> None:
    (root / LAYER).write_bytes((2).to_bytes(8, "little") + b"{}")


def _stray(name: str) -> Change:
    return lambda root: write_layer(root / FOLDER / name, np.random.default_rng(9))


SPOILED = [
    Spoiled(name="missing", change=remove(LAYER), rule="PKG038"),
    Spoiled(name="missing mixer", change=remove(MIXER), rule="PKG038"),
    Spoiled(name="pointer", change=write(LAYER, POINTER), rule="FMT010"),
    Spoiled(name="page", change=write(MIXER, PAGE), rule="FMT011"),
    Spoiled(name="empty", change=write(LAYER, b""), rule="FMT012"),
    Spoiled(name="cut", change=bytes_of(LAYER, lambda d: d[:-3]), rule="FMT012"),
    Spoiled(name="longer", change=bytes_of(LAYER, lambda d: d + b"x"), rule="FMT013"),
    Spoiled(name="no tensor", change=_empty_header, rule="PKG038"),
    Spoiled(name="copy of another layer", change=_copy, rule="PKG040"),
    Spoiled(name="zeros", change=_zeros, rule="PKG041"),
    Spoiled(name="one NaN", change=_not_finite, rule="PKG060"),
    Spoiled(name="a mixer's tensors", change=_mixers_tensors, rule="PKG038"),
    Spoiled(name="layer beyond the last", change=_stray("layer_99.safetensors"), rule="PKG038"),
    Spoiled(name="layer just beyond", change=_stray("layer_08.safetensors"), rule="PKG038"),
    Spoiled(name="another spelling", change=_stray("layer_3.safetensors"), rule="PKG038"),
    Spoiled(name="tensors of no layer", change=_stray("extra.safetensors"), rule="PKG038"),
    Spoiled(name="page as JSON", change=write(f"{FOLDER}/config.json", PAGE), rule="FMT011"),
    Spoiled(name="cut JSON", change=write(f"{FOLDER}/config.json", b'{"a": '), rule="FMT001"),
    Spoiled(
        name="pointer of a suffix of its own",
        change=write(f"{FOLDER}/a.bin", POINTER),
        rule="FMT010",
    ),
    Spoiled(name="empty file of the build", change=write("target/coreai/rope.bin", b""), rule="PKG043"),
    Spoiled(
        name="array that is none",
        change=write("target/coreai/a.npy", b"\x93NUMPY\x01\0\x05\0xxxxx"),
        rule="PKG043",
    ),
    Spoiled(
        name="pointer in the build",
        change=write("target/coreai/rope.npy", POINTER),
        rule="FMT010",
    ),
    Spoiled(
        name="hole in the build",
        change=write("target/coreai/rope.bin", bytes(4096)),
        rule="FMT011",
    ),
    Spoiled(
        name="index that names a lost file",
        change=write(f"{FOLDER}/model.safetensors.index.json", b'{"weight_map": {"a": "gone.safetensors"}}'),
        rule="PKG039",
    ),
]


@pytest.mark.parametrize("one", SPOILED, ids=[one.name for one in SPOILED])
def test_a_spoiled_file_is_refused_by_both(pair: Path, one: Spoiled) -> None:
    """Verification refuses it by one rule, which explains all others, and emission by the same reading."""
    one.change(pair)
    report = verified(pair, "hash")
    assert [one.rule] == roots(report), explain_all(report)
    with pytest.raises(ForgepackError) as caught:
        identified(pair)
    refused = caught.value  # emission takes the digests itself: of copies it says so in words of its own
    assert one.rule in str(refused) or ("PKG040", "emit-identity") == (one.rule, refused.code), str(refused)


def test_an_export_may_be_its_head_alone(pair: Path) -> None:
    """Head and quantization need no layers; those that the package was bound to are missed by digest alone."""
    for path in (pair / FOLDER).glob("layer_*"):
        path.unlink()
    assert identified(pair).target["export"] == EXPORT
    assert ["CTR023"] == roots(verified(pair, "hash"))


def test_records_that_were_emptied_are_refused(pair: Path) -> None:
    """A sidecar whose list of files is empty, its own digests brought up to date, covers nothing of what is there."""
    forge_binding(pair, lambda bound: bound["target"].update(files={}))
    report = verified(pair, "hash")
    assert ["CTR024"] == roots(report), explain_all(report)
    assert check_of(report, "CTR024").count > 16


@pytest.mark.parametrize("files", [{}, None])
def test_records_of_model_files_that_were_emptied_are_refused(full_pair: Path, tmp_path: Path, files: Any) -> None:
    """An empty record covers nothing; null is of version 1, and no sidecar of version 2 may say it."""
    root = Path(shutil.copytree(full_pair, tmp_path / "pair"))
    forge_binding(root, lambda bound: bound["target"].update(model_files=files))
    report = verified(root, "hash")
    assert ["CTR080"] == roots(report), explain_all(report)


def judged(root: Path, ident: str) -> Check:
    """Evaluate one rule on a pair, at depth lineage, without what other rules read."""
    sources = find_sources(root / "drafter", root / "target")
    return evaluate(find_rule(ident), OpenPair(sources, tiny_profile(), Depth.LINEAGE), [])


def test_a_chunk_under_another_name_is_warned_of(pair: Path) -> None:
    """Two packages with one program: one of them computes the wrong layers, or is a stand-in."""
    first, other = sorted((pair / "target/coreai").glob("chunk_*.aimodel"))[:2]
    assert "pass" == check_of(verified(pair, "hash"), "PKG061").status
    shutil.copytree(first, other, dirs_exist_ok=True)
    check = check_of(verified(pair, "hash"), "PKG061")
    assert ("fail", "warning") == (check.status, check.severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreeing:
    """A file of model/ that does not agree with another, and the rule that says which two."""

    name: str
    file: str
    change: Any
    rule: str


def _renamed(raw: dict[str, Any]) -> None:
    first, second = list(raw)[:2]
    raw[first], raw[second] = raw[second], raw[first]


def _shorten(raw: dict[str, Any]) -> None:
    del raw["a"]


ADDED, VOCAB, SPECIAL, GENERATED, SETTINGS = (
    "added_tokens.json",
    "vocab.json",
    "special_tokens_map.json",
    "generation_config.json",
    "tokenizer_config.json",
)
DISAGREEING = [
    Disagreeing(name="id beyond the rows", file=ADDED, change=lambda r: r.update({"<|x|>": 48}), rule="TOK020"),
    Disagreeing(name="padding row", file=ADDED, change=lambda r: r.update({"<|x|>": 45}), rule="TOK021"),
    Disagreeing(name="text as id", file=ADDED, change=lambda r: r.update({"<|x|>": "4"}), rule="TOK020"),
    Disagreeing(name="exchanged", file=ADDED, change=_renamed, rule="TOK021"),
    Disagreeing(
        name="decoder beyond the rows",
        file=SETTINGS,
        change=lambda r: r["added_tokens_decoder"].update({"320": {"content": "<|x|>"}}),
        rule="TOK020",
    ),
    Disagreeing(
        name="decoder of another text",
        file=SETTINGS,
        change=lambda r: r["added_tokens_decoder"]["42"].update(content="<|x|>"),
        rule="TOK021",
    ),
    Disagreeing(name="foreign vocabulary", file=VOCAB, change=_renamed, rule="TOK021"),
    Disagreeing(name="short vocabulary", file=VOCAB, change=_shorten, rule="TOK021"),
    Disagreeing(name="longer vocabulary", file=VOCAB, change=lambda r: r.update(zz=47), rule="TOK021"),
    Disagreeing(
        name="no such token",
        file=SPECIAL,
        change=lambda r: r.update(eos_token="<|x|>"),
        rule="TOK022",
    ),
    Disagreeing(name="no token at all", file=SPECIAL, change=lambda r: r.update(pad_token=7), rule="TOK022"),
    Disagreeing(
        name="role of no token",
        file=SETTINGS,
        change=lambda r: r.update(pad_token="<|x|>"),
        rule="TOK022",
    ),
    Disagreeing(
        name="end of the settings",
        file=SETTINGS,
        change=lambda r: r.update(eos_token="<|s43|>"),
        rule="CTR100",
    ),
    Disagreeing(
        name="mask of the map",
        file=SPECIAL,
        change=lambda r: r.update(mask_token={"content": "<|s40|>"}),
        rule="CTR100",
    ),
    Disagreeing(name="no end at all", file=GENERATED, change=lambda r: r.update(eos_token_id=[]), rule="TOK024"),
    Disagreeing(name="foreign end", file=GENERATED, change=lambda r: r.update(eos_token_id=5), rule="TOK024"),
    Disagreeing(
        name="one foreign end of two",
        file=GENERATED,
        change=lambda r: r.update(eos_token_id=[40, 5]),
        rule="TOK024",
    ),
    Disagreeing(
        name="padding that does not decode",
        file=GENERATED,
        change=lambda r: r.update(pad_token_id=45),
        rule="TOK024",
    ),
]


@pytest.mark.parametrize("one", DISAGREEING, ids=[one.name for one in DISAGREEING])
def test_files_that_disagree_are_refused_by_both(full_pair: Path, tmp_path: Path, one: Disagreeing) -> None:
    """One rule says which file disagrees, and emission refuses the target."""
    root = Path(shutil.copytree(full_pair, tmp_path / "pair"))
    edit(f"target/model/{one.file}", one.change)(root)
    check = judged(root, one.rule)
    assert ("fail", "error") == (check.status, check.severity)
    assert one.file in check.findings[0].where
    with pytest.raises(ForgepackError) as caught:
        identified(root)
    assert one.file in str(caught.value)


@pytest.mark.parametrize("flag", ["special", "lstrip", "normalized"])
def test_added_tokens_that_are_treated_otherwise_are_warned_of(full_pair: Path, tmp_path: Path, flag: str) -> None:
    """What both files state of one token agrees; what one of them leaves out is no disagreement."""
    root = Path(shutil.copytree(full_pair, tmp_path / "pair"))
    put(f"target/model/{SETTINGS}", "added_tokens_decoder", "42", flag, value=False)(root)
    assert ("fail" if flag == "special" else "pass") == judged(root, "CTR101").status


@pytest.mark.parametrize(
    ("text", "rule"),
    [("#version: 0.2\nc d\na b\na e\n", "TOK021"), ("a b\n", "TOK021"), ("", "TOK020"), ("a b c\n", "TOK020")],
)
def test_merges_of_another_order_or_form_are_refused(full_pair: Path, tmp_path: Path, text: str, rule: str) -> None:
    """merges.txt holds tokenizer.json's merges in their order, two parts a line."""
    root = Path(shutil.copytree(full_pair, tmp_path / "pair"))
    (root / "target/model/merges.txt").write_text(text)
    assert "fail" == judged(root, rule).status
    with pytest.raises(ForgepackError, match=r"merge|agree"):
        identified(root)


def test_a_target_with_all_its_files_passes(full_pair: Path) -> None:
    """Qwen's layout is no fault: added tokens repeated, not in vocab.json; several end tokens; tokens as objects."""
    report = verified(full_pair, "hash", strict=True)
    assert "pass" == report.verdict, explain_all(report)
    for ident in ("TOK020", "TOK021", "TOK022", "TOK023", "TOK024", "TOK025", "CTR100", "CTR101"):
        assert "pass" == judged(full_pair, ident).status, told(report, ident)
    assert "tokenizer.model" in told(report, "CTR083")
    assert "bound, not read" in told(report, "CTR083")


def _crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


LEGAL: dict[str, tuple[Change, str]] = {
    "vocabulary written again": (lambda r: _dump(r / "target/model/vocab.json"), "CTR081"),
    "settings of generation": (put("target/model/generation_config.json", "temperature", value=0.9), "CTR081"),
    "another role": (
        edit("target/model/tokenizer_config.json", lambda r: r.update(eos_token="<|s43|>")),
        "TOK023",
    ),
    "merges with other line ends": (
        bytes_of("target/model/merges.txt", _crlf),
        "CTR081",
    ),
    "another template": (write("target/model/chat_template.jinja", b"{{ others }}"), "TOK003"),
    "one of three templates": (write("target/model/chat_template.jinja", b"{{ others }}"), "TOK025"),
}


def _dump(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=7))


@pytest.mark.parametrize("name", sorted(LEGAL))
def test_what_means_the_same_is_warned_of(full_pair: Path, tmp_path: Path, name: str) -> None:
    """Other bytes of one meaning, sampling settings and templates are the serving side's: warnings, no more."""
    root = Path(shutil.copytree(full_pair, tmp_path / "pair"))
    change, rule = LEGAL[name]
    change(root)
    report = verified(root, "hash")
    assert "pass" == report.verdict, explain_all(report)
    assert rule in {check.id for check in report.failed("warning")}


@pytest.mark.parametrize(
    "name", ["added_tokens.json", "vocab.json", "merges.txt", "tokenizer.model", "generation_config.json"]
)
def test_model_files_that_are_lost_or_new_are_refused(full_pair: Path, tmp_path: Path, name: str) -> None:
    """A bound file of model/ that is not there is refused, and so is one that the pair was not bound to."""
    root = Path(shutil.copytree(full_pair, tmp_path / "pair"))
    (root / "target/model" / name).unlink()
    assert ["CTR080"] == roots(verified(root, "hash"))
    forge_binding(root, lambda bound: bound["target"]["model_files"].pop(name))
    assert "pass" == verified(root, "hash").verdict
    shutil.copy(full_pair / "target/model" / name, root / "target/model")
    assert ["CTR080"] == roots(verified(root, "hash"))


def test_a_file_that_nothing_lists_in_checkpoint_or_quant_is_warned_of(pair: Path) -> None:
    """Weights beside the locked ones are told; what git and the hub's client leave is not."""
    for name in ("checkpoint/adapter.bin", "quant/notes.txt", "checkpoint/.gitattributes"):
        (pair / name).write_bytes(b"x")
    (pair / "checkpoint/.cache/huggingface").mkdir(parents=True)
    (pair / "checkpoint/.cache/huggingface/config.json.metadata").write_bytes(b"x")
    report = verified(pair, "hash", sources=True)
    found = {finding.where for finding in check_of(report, "PKG042").findings}
    assert ("pass", {"checkpoint/adapter.bin", "quant/notes.txt"}) == (report.verdict, found)


def test_a_binding_of_today_records_the_files_of_model(pair: Path) -> None:
    """Only version 1 binds none of them: without the record nothing passes, also where there is no file to miss."""
    forge_binding(pair, lambda binding: binding["target"].update(model_files=None))
    check = check_of(verified(pair, "hash"), "CTR080")
    assert ("fail", "forgepack.target.model_files") == (check.status, check.findings[0].where.rpartition(": ")[2])
