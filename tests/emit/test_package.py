"""Emission as a whole: the same bytes anywhere, a complete package or none, wrong inputs refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forgepack
from forgepack.artifacts.aimodel import metadata_content, read_asset_files
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.sidecar import RUNTIME_KEYS, read_sidecar, sidecar_path
from forgepack.canonical import digest_json, dump_canonical
from forgepack.emit.package import emit_package, plan_package
from forgepack.errors import IdentityError, MissingError, NumericsError, OutputError, UsageError
from forgepack.facts.checkpoint import checkpoint_facts
from forgepack.facts.fact import record_of
from forgepack.facts.files import file_record
from forgepack.facts.quantization import quantization_facts
from forgepack.facts.target import target_record
from forgepack.profile import parse_profile
from forgepack.schema_check import schema_faults
from tests.emit.conftest import Emitted
from tests.emit.inputs import (
    EXPORT,
    Pair,
    lock_checkpoint,
    profile_json,
    write_head,
    write_pair,
    write_quant,
    write_tensors,
)
from tests.emit.synthetic import ODD
from tests.rounded import round_plainly

CODEBOOK = "candidate_selector.successor_codebook"
ROOT = Path(forgepack.__file__).parent.parent


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def put_old_package(made: Path, out: Path) -> dict[str, bytes]:
    """Put a package of other bytes, listed by its record, into a place and return them: what --force may replace."""
    shutil.copytree(made, out)
    (out / "LICENSE").write_bytes(b"old")
    (record,) = (path for path in out.glob("*.json") if b"forgepack.sidecar/" in path.read_bytes())
    raw = json.loads(record.read_bytes())
    raw["forgepack"]["package"]["files"]["LICENSE"] = file_record(out / "LICENSE")
    record.write_bytes(dump_canonical(raw))
    return tree(out)


@pytest.fixture
def pair(odd: Emitted, tmp_path: Path) -> Pair:
    """Return a copy of the pair that may be spoilt."""
    shutil.copytree(odd.pair.root, tmp_path / "pair", ignore=shutil.ignore_patterns("drafter"))
    return Pair(root=tmp_path / "pair", profile=odd.pair.profile, weights=odd.pair.weights)


def emit(pair: Pair, **options: Any) -> dict[str, bytes]:
    result = emit_package(pair.read(), pair.root / "drafter", profile=pair.profile, **options)
    return tree(result.root)


EMIT = """
import sys
from pathlib import Path
from forgepack.profile import parse_profile
from forgepack.emit.package import emit_package
from tests.emit.inputs import Pair, profile_json
from tests.emit.synthetic import ODD, make_weights
pair = Pair(root=Path(sys.argv[1]), profile=parse_profile(profile_json(ODD)), weights=make_weights(ODD))
emit_package(pair.read(), Path(sys.argv[2]), profile=pair.profile)
"""


def test_two_builds_are_byte_identical(odd: Emitted, pair: Pair, tmp_path: Path) -> None:
    """Copies of the inputs under other names, another process, another output: the same tree, byte for byte."""
    moved = tmp_path / "an other place"
    pair.root.rename(moved)
    out = tmp_path / "out of the way" / "name"
    out.parent.mkdir()
    subprocess.run([sys.executable, "-c", EMIT, moved, out], cwd=ROOT, check=True)
    assert tree(odd.result.root) == tree(out)


def test_no_file_holds_a_path_of_the_machine(odd: Emitted) -> None:
    """Neither the inputs' nor the outputs' nor the tool's folder stands in any file."""
    for name, data in tree(odd.result.root).items():
        for path in (odd.pair.root, ROOT, Path(sys.prefix), Path.home()):
            assert str(path).encode() not in data, name


def test_package_holds_exactly_its_files(odd: Emitted) -> None:
    """Nine files, those of the plan; config, licence and notice byte for byte."""
    plan = plan_package(odd.pair.profile)
    found = tree(odd.result.root)
    assert set(plan.files) == set(found)
    for name in ("config.json", "LICENSE", "NOTICE"):
        assert (odd.pair.checkpoint / name).read_bytes() == found[name]
    assert not list(odd.result.root.parent.glob(".*"))


def test_selector_holds_the_two_codebooks_alone(odd: Emitted) -> None:
    """selector.safetensors: two BF16 tensors, contiguous from 0, bytes of the checkpoint."""
    selector = read_safetensors(odd.result.root / "selector.safetensors")
    checkpoint = read_safetensors(odd.pair.checkpoint / "model.safetensors")
    names = [f"candidate_selector.{kind}_codebook" for kind in ("predecessor", "successor")]
    assert names == sorted(selector.tensors)
    for name in names:
        assert (selector.info(name).dtype, selector.info(name).shape) == ("BF16", (101, 12))
        assert checkpoint.raw(name).tobytes() == selector.raw(name).tobytes()
    assert selector.info(names[0]).end == selector.info(names[1]).begin
    assert dict(selector.metadata) == {}


def test_sidecar_keeps_the_runtimes_keys(mini: Emitted) -> None:
    """The keys that the runtime reads have their names, types and values."""
    raw = read_sidecar(mini.result.sidecar_file).raw
    assert {*RUNTIME_KEYS, "forgepack"} == set(raw)
    assert {
        "W": 64,
        "T": 8,
        "R": 8,
        "RP": 64,
        "resid_scale": 256.0,
        "lut_f": {"down": 0.015625, "default": 0.0625},
        "feat_scale": 0.125,
        "export": "drafter_lut4_gptq",
        "target_export": EXPORT,
        "head_export": f"{EXPORT}/lm_head.safetensors",
        "mask_scale": 0.7,
        "mb": 0,
    } == {key: raw[key] for key in RUNTIME_KEYS if key != "entries"}
    assert {key: type(raw[key]) for key in ("W", "resid_scale", "mask_scale", "mb")} == {
        "W": int,
        "resid_scale": float,
        "mask_scale": float,
        "mb": int,
    }


def test_sidecar_and_source_record_fit_their_schemas(odd: Emitted) -> None:
    """Both JSON files are valid under the shipped schemas and canonical."""
    sidecar = read_sidecar(odd.result.sidecar_file)
    source = json.loads((odd.result.root / "DFLASH2_SOURCE.json").read_bytes())
    assert sidecar.faults() == ()
    assert schema_faults(source, "dflash2_source") == ()
    assert dump_canonical(source) == (odd.result.root / "DFLASH2_SOURCE.json").read_bytes()
    assert dump_canonical(dict(sidecar.raw)) == odd.result.sidecar_file.read_bytes()
    assert sidecar_path(odd.result.asset) == odd.result.sidecar_file


def test_sidecar_binds_the_inputs_by_content(odd: Emitted) -> None:
    """What the sidecar records is what describing the inputs again gives."""
    inputs = odd.pair.read()
    bound = odd.result.sidecar["forgepack"]
    assert record_of(checkpoint_facts(inputs.checkpoint.root, inputs.checkpoint.lock)) == bound["checkpoint"]
    assert target_record(inputs.target, odd.pair.profile.geometry) == bound["target"]
    assert record_of(quantization_facts(inputs.quant.report)) == bound["quantization"]
    assert {"compile_mode": 2, "draft_gap_ms": 3, "host_threads": 1} == bound["runtime"]
    assert {"layer_ids": [0, 2, 7], "hf_hidden_states": [1, 3, 8], "convention": "layer_output_zero_based"} == (
        bound["target"]["taps"]
    )


def test_asset_says_what_it_belongs_to_without_its_sidecar(odd: Emitted) -> None:
    """The asset's own metadata names licences, checkpoint and target by digest, and the sidecar binds it."""
    files = read_asset_files(odd.result.asset)
    bound, own = odd.result.sidecar["forgepack"], files.custom["forgepack"]
    assert own["checkpoint"] == bound["checkpoint"]
    assert own["target"]["head_content_sha256"] == bound["target"]["head"]["content_sha256"]
    assert own["profile"] == bound["profile"]
    assert files.metadata["license"] == "Apache-2.0 AND MIT"
    recorded = bound["package"]["files"]["dflash2_lut4_gptq.aimodel/metadata.json"]
    assert recorded == {"content_sha256": digest_json(metadata_content(files.metadata))}
    assert odd.reading.require_head().digest.digest == bound["target"]["head"]["content_sha256"]


def test_a_given_date_moves_the_metadata_alone(odd: Emitted, pair: Pair) -> None:
    """Another creation date changes metadata.json and nothing that the sidecar binds."""
    found = emit(pair, created=1_700_000_000)
    changed = {name for name, data in tree(odd.result.root).items() if found[name] != data}
    assert changed == {"dflash2_lut4_gptq.aimodel/metadata.json"}


def replace_bytes(path: str, old: bytes, new: bytes) -> Callable[[Pair], None]:
    def spoil(pair: Pair) -> None:
        data = (pair.root / path).read_bytes()
        assert old in data
        (pair.root / path).write_bytes(data.replace(old, new))

    return spoil


def flip_last(path: str) -> Callable[[Pair], None]:
    def spoil(pair: Pair) -> None:
        data = bytearray((pair.root / path).read_bytes())
        data[-1] ^= 1
        (pair.root / path).write_bytes(bytes(data))

    return spoil


def stale_head(pair: Pair) -> None:
    """Replace the export's head, as another training run would, and quantize against it; the package stays."""
    path = pair.target / "export" / EXPORT / "lm_head.safetensors"
    tensors = {name: np.array(read_safetensors(path).array(name)) for name in read_safetensors(path).tensors}
    tensors["lm_head.idx"] = np.roll(tensors["lm_head.idx"], 1, axis=0)
    write_tensors(path, tensors)
    write_quant(pair)


def other_commit(pair: Pair) -> None:
    lock_checkpoint(pair.checkpoint, commit="f" * 40)
    write_quant(pair)


WRONG: dict[str, tuple[Callable[[Pair], None], str]] = {
    "head-edited": (flip_last(f"target/export/{EXPORT}/lm_head.safetensors"), "another head"),
    "head-package-stale": (stale_head, "head package"),
    "embedding-edited": (flip_last("target/model/embed_tokens_fp16.npy"), "another embedding"),
    "tokenizer-reordered": (
        replace_bytes("target/model/tokenizer.json", b'"t1": 1, "t2": 2', b'"t1": 2, "t2": 1'),
        "another tokenizer",
    ),
    "weights-edited": (flip_last("checkpoint/model.safetensors"), "lock"),
    "licence-edited": (replace_bytes("checkpoint/LICENSE", b"Apache", b"Parche"), "lock"),
    "commit-moved": (other_commit, "SRC003"),
    "quant-edited": (flip_last("quant/drafter_quant.safetensors"), "not those of their report"),
    "taps-shifted": (replace_bytes("target/coreai/manifest.json", b"[0, 2, 7]", b"[1, 3, 8]"), "TAP"),
    "taps-permuted": (replace_bytes("target/coreai/manifest.json", b"[0, 2, 7]", b"[2, 0, 7]"), "TAP"),
    "other-profile": (lambda pair: write_quant(pair, profile__name="other"), "refused by SRC012\n"),
    "other-profile-state": (lambda pair: write_quant(pair, profile__sha256="0" * 64), "SRC012"),
    "rtn": (lambda pair: write_quant(pair, recipe__variant="lut4_rtn"), "SRC012"),
    "other-mask-scale": (
        lambda pair: write_quant(pair, recipe__mask_scale={"calibration": 0.7, "deployment": 0.65}),
        "SRC012",
    ),
    "quant-of-other-lock": (
        lambda pair: write_quant(pair, inputs__checkpoint__lock_sha256="0" * 64),
        "SRC013",
    ),
    "quant-of-donor": (
        lambda pair: write_quant(pair, inputs__checkpoint__model_sha256="0" * 64),
        "SRC013",
    ),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_inputs_that_do_not_belong_together_are_refused(pair: Pair, name: str) -> None:
    """Each wrong pairing ends in IdentityError (exit 4) that names it, and nothing is written."""
    spoil, words = WRONG[name]
    spoil(pair)
    with pytest.raises(IdentityError, match=words) as caught:
        emit(pair)
    assert caught.value.exit_code == 4
    assert "  next: " in str(caught.value)
    assert sorted(p.name for p in pair.root.iterdir()) == ["checkpoint", "quant", "target"]


def test_wrong_inputs_are_named_rather_than_what_comes_of_them(pair: Pair) -> None:
    """Where a constant can't be computed and the inputs do not belong together, the second is the reason."""
    path = pair.checkpoint / "model.safetensors"
    tensors = {name: np.array(read_safetensors(path).array(name)) for name in read_safetensors(path).tensors}
    tensors["norm.weight"][5] = np.nan
    write_tensors(path, tensors)
    lock_checkpoint(pair.checkpoint)
    write_quant(pair, inputs__target__embedding_sha256="0" * 64)
    with pytest.raises(IdentityError, match="another embedding"):
        emit(pair)
    assert not (pair.root / "drafter").exists()


def test_the_donor_is_refused_by_digest(pair: Pair) -> None:
    """A checkpoint that the profile knows to be wrong is refused even under a fitting lock."""
    lock = json.loads((pair.checkpoint / "checkpoint.lock.json").read_text())
    digest = next(f["sha256"] for f in lock["files"] if f["path"] == "model.safetensors")
    profile = parse_profile(profile_json(ODD, known_bad={digest: "the donor"}))
    inputs = pair.read()
    with pytest.raises(IdentityError, match="wrong"):
        emit_package(inputs, pair.root / "drafter", profile=profile)


def test_licence_files_are_required(pair: Pair) -> None:
    """An empty NOTICE, even a locked one, and a target without export are refused."""
    (pair.checkpoint / "NOTICE").write_bytes(b"\n")
    lock_checkpoint(pair.checkpoint)
    write_quant(pair)
    with pytest.raises(MissingError, match="licence"):
        emit(pair)


def test_a_target_without_export_can_not_give_a_head(pair: Pair) -> None:
    """The head comes from the export, so without it nothing is emitted."""
    shutil.rmtree(pair.target / "export")
    with pytest.raises(MissingError, match="export"):
        emit(pair)


def test_a_target_without_head_package_is_refused(pair: Pair) -> None:
    """A build that names a head package and lacks it is refused as verification refuses it."""
    shutil.rmtree(pair.target / "coreai" / "head_T8.aimodel")
    with pytest.raises(IdentityError, match="PKG001"):
        emit(pair)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("name", "where"),
    [("norm.weight", "norm"), (CODEBOOK, f"model.safetensors: {CODEBOOK}")],
    ids=["norm", "codebook"],
)
def test_a_weight_that_is_not_finite_is_refused(
    odd: Emitted, pair: Pair, name: str, where: str, value: float
) -> None:
    """In a constant of the asset or in a codebook it ends in NumericsError that names it; the old package stays."""
    path = pair.checkpoint / "model.safetensors"
    tensors = {name: np.array(read_safetensors(path).array(name)) for name in read_safetensors(path).tensors}
    tensors[name].reshape(-1)[5] = value
    write_tensors(path, tensors)
    lock_checkpoint(pair.checkpoint)
    write_quant(pair)
    before = put_old_package(odd.result.root, pair.root / "drafter")
    with pytest.raises(NumericsError) as caught:
        emit(pair, force=True)
    assert str(caught.value.where).endswith(where)
    assert tree(pair.root / "drafter") == before


def test_an_existing_output_needs_force(odd: Emitted, pair: Pair) -> None:
    """Without --force an existing folder is refused and kept; with it, it is replaced whole."""
    out = pair.root / "drafter"
    before = put_old_package(odd.result.root, out)
    with pytest.raises(UsageError, match="exists"):
        emit(pair)
    assert tree(out) == before
    assert emit(pair, force=True) == tree(odd.result.root)


def test_what_a_dead_run_left_is_removed(odd: Emitted, pair: Pair) -> None:
    """Stages of a killed run beside the output are removed by the next, whose bytes are the same."""
    stage = pair.root / ".drafter.work" / "stage-dead" / "package"
    stage.mkdir(parents=True)
    (stage / "half").write_bytes(b"half")
    (stage.parents[1] / "lock").touch()
    assert emit(pair) == tree(odd.result.root)
    assert not (pair.root / ".drafter.work").exists()


LIMITED = """
import resource, sys
from pathlib import Path
from forgepack.emit.author import open_author
from forgepack.errors import ForgepackError
from tests.emit.synthetic import ODD, RECIPE, geometry
path = Path(sys.argv[1]) / "c.bin"
path.write_bytes(bytes(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))
try:
    with open_author(Path(sys.argv[1]) / "a.aimodel", geometry=geometry(ODD), recipe=RECIPE) as author:
        author.program(path, {})
except ForgepackError as err:
    print(type(err).__name__, err.exit_code, err.found)
"""


def test_a_full_disk_under_core_ais_writer_is_an_output_error(tmp_path: Path) -> None:
    """Core AI's writer ends its process when the disk refuses; here that is an OutputError (exit 5)."""
    found = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout == "OutputError 5 File too large\n"


def test_a_read_only_parent_is_an_output_error(pair: Pair) -> None:
    """Where the output can't be made, the error has exit code 5 and names the place."""
    with pytest.raises(OutputError) as caught:
        emit_package(pair.read(), Path("/proc/drafter"), profile=pair.profile)
    assert caught.value.exit_code == 5
    assert "/proc" in str(caught.value.where)


def test_subnormal_losses_are_reported(pair: Pair) -> None:
    """Row scales that a fold makes subnormal are counted in the result and in the sidecar."""
    name, path = "layers.0.self_attn.o_proj.weight", pair.checkpoint / "model.safetensors"
    arrays = dict(pair.weights.arrays)
    signs = np.sign(np.asarray(arrays[f"checkpoint:{name}"], np.float32))
    arrays[f"checkpoint:{name}"] = (signs * 211 * 2.0**-21).astype(arrays[f"checkpoint:{name}"].dtype)
    rounded = round_plainly(pair.profile.geometry, lambda name: arrays[f"checkpoint:{name}"])
    arrays |= {f"quant:{name}": array for name, array in rounded.items()}
    spoilt = Pair(root=pair.root, profile=pair.profile, weights=replace(pair.weights, arrays=arrays))
    write_tensors(path, spoilt.weights.group("checkpoint"))
    lock_checkpoint(pair.checkpoint)
    write_quant(spoilt)
    result = emit_package(spoilt.read(), pair.root / "drafter", profile=pair.profile)
    lost = result.narrowed["layers.0.self_attn.o_proj.scale"]
    assert (lost.changed, lost.zeroed) == (48, 0)
    assert result.sidecar["forgepack"]["package"]["narrowed"] == {
        "layers.0.self_attn.o_proj.scale": {"changed": 48, "zeroed": 0}
    }


def test_another_seed_gives_another_package(odd: Emitted, tmp_path: Path) -> None:
    """Other weights change the program but not its structure."""
    other = write_pair(tmp_path / "other", ODD, seed=1)
    result = emit_package(other.read(), tmp_path / "drafter", profile=other.profile)
    bound, expected = result.sidecar["forgepack"]["package"], odd.result.sidecar["forgepack"]["package"]
    assert result.program_sha256 != odd.result.program_sha256
    assert expected["trace_sha256"] == bound["trace_sha256"]


def test_a_rebuilt_head_package_is_the_same_head(odd: Emitted, pair: Pair) -> None:
    """Authoring the target's head package again keeps the pair whole."""
    shutil.rmtree(pair.target / "coreai" / "head_T8.aimodel")
    write_head(pair)
    assert emit(pair) == tree(odd.result.root)
