"""Copies of the good pair, each spoiled in one way in which pairs have gone wrong (contract, section 6).

A spoiler changes the copy alone and repairs what a careful or careless person would repair with it (hashes of
files, the sidecar's record), so that only the rule that fits can find it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from forgepack.artifacts.checkpoint import CONFIG_FILE, MODEL_FILE
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.lock import LOCK_NAME
from forgepack.artifacts.quant_report import REPORT_FILE
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.target import HEAD_FILE, MANIFEST_FILE, locate_target, read_target
from forgepack.artifacts.tokenizer import TOKENIZER_FILE
from forgepack.canonical import dump_canonical
from forgepack.coreai_backend.asset_writer import AssetMetadata
from forgepack.coreai_backend.target_assets import author_head_package
from forgepack.miniature.assets import read_head_weights
from forgepack.miniature.scene import Pairing, Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Sabotage:
    """One spoiled pair: its name, what was done, the areas whose rules should refuse it, and how it is spoiled."""

    name: str
    story: str
    areas: tuple[str, ...]
    spoil: Callable[[Scene, Pairing], None]


def spoiled_copy(scene: Scene, sabotage: Sabotage, folder: Path) -> Pairing:
    """Copy the good pair into ``folder`` and spoil the copy."""
    good = scene.pairing
    copy = Pairing(
        drafter=folder / "drafter", target=folder / "target", quant=folder / "quant", checkpoint=folder / "checkpoint"
    )
    for part in ("drafter", "target", "quant", "checkpoint"):
        shutil.copytree(getattr(good, part), getattr(copy, part))
    sabotage.spoil(scene, copy)
    return copy


def _edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(dump_canonical(value))


def _sidecar(scene: Scene, pair: Pairing) -> Path:
    return pair.drafter / f"{scene.profile.package}.json"


def _asset(scene: Scene, pair: Pairing) -> Path:
    return pair.drafter / f"{scene.profile.package}.aimodel"


def _stale_head(scene: Scene, pair: Pairing) -> None:
    """Build the package for a target that holds an older head throughout: it agrees with itself, not with ours."""
    stale = pair.target.parent / "stale"
    shutil.copytree(scene.miniature.target, stale)
    export = locate_target(stale).export
    assert export is not None
    shutil.copyfile(scene.miniature.stale_head, export / HEAD_FILE)
    package = read_target(locate_target(stale)).head_package
    shutil.rmtree(package)
    author_head_package(
        package,
        read_head_weights(export, scene.profile.geometry),
        parts=scene.profile.geometry.head_parts,
        metadata=AssetMetadata(author="forgepack", licence="Apache-2.0", description="an older head", custom={}),
    )
    # emit refuses a quantization of another head: this one claims that it and its traces are of the older one.
    old_quant = stale.parent / "stale_quant"
    shutil.copytree(pair.quant, old_quant)
    head_sha256 = hash_file(export / HEAD_FILE)[1]

    def claim(report: dict[str, Any]) -> None:
        inputs = report["inputs"]
        inputs["target"]["head_sha256"] = head_sha256
        for traces in ("calibration", "held_out"):
            inputs[traces]["identity"]["target"]["lm_head_sha256"] = head_sha256

    _edit(old_quant / REPORT_FILE, claim)
    shutil.rmtree(pair.drafter)
    scene.emit(pair.drafter, target=stale, quant=old_quant)


def _taps(scene: Scene, pair: Pairing, taps: list[int]) -> None:
    """Write other taps wherever the package names them, consistently."""

    def in_config(config: dict[str, Any]) -> None:
        config["dflash_config"]["target_layer_ids"] = taps

    def in_sidecar(sidecar: dict[str, Any]) -> None:
        record = sidecar["forgepack"]["target"]["taps"]
        record["layer_ids"], record["hf_hidden_states"] = taps, [n + 1 for n in taps]
        _record(sidecar, pair.drafter, CONFIG_FILE)

    _edit(pair.drafter / CONFIG_FILE, in_config)
    _edit(_sidecar(scene, pair), in_sidecar)


def _record(sidecar: dict[str, Any], drafter: Path, name: str) -> None:
    """Bring the sidecar's record of one file of the package up to date."""
    size, digest = hash_file(drafter / name)
    sidecar["forgepack"]["package"]["files"][name] = {"bytes": size, "sha256": digest}


def _taps_permuted(scene: Scene, pair: Pairing) -> None:
    first, second, *rest = scene.profile.geometry.taps
    _taps(scene, pair, [second, first, *rest])


def _taps_shifted(scene: Scene, pair: Pairing) -> None:
    _taps(scene, pair, list(scene.profile.geometry.hf_taps))


def _tokenizer_reordered(_: Scene, pair: Pairing) -> None:
    """Exchange two tokens: same size, other order."""

    def swap(tokenizer: dict[str, Any]) -> None:
        vocab = tokenizer["model"]["vocab"]
        one, two = sorted(vocab, key=vocab.__getitem__)[97:99]
        vocab[one], vocab[two] = vocab[two], vocab[one]

    _edit(pair.target / "model" / TOKENIZER_FILE, swap)


def _edited_weight(scene: Scene, pair: Pairing) -> None:
    """Change one weight inside the asset and bring main.hash and the sidecar's file record up to date."""
    asset = _asset(scene, pair)
    program = asset / "main.mlirb"
    data = bytearray(program.read_bytes())
    indices = read_safetensors(pair.quant / "drafter_quant.safetensors").array("layers.0.mlp.up_proj.weight.idx")
    low, high = indices.reshape(-1)[0::2], indices.reshape(-1)[1::2]
    at = data.find((low | high << 4).astype(np.uint8).tobytes())
    data[at + 100] ^= 0x01
    program.write_bytes(data)
    (asset / "main.hash").write_bytes(bytes.fromhex(hash_file(program)[1]))

    def change(sidecar: dict[str, Any]) -> None:
        for name in ("main.mlirb", "main.hash"):
            _record(sidecar, pair.drafter, f"{asset.name}/{name}")

    _edit(_sidecar(scene, pair), change)


def donor_model(model: bytes) -> bytes:
    """Return a model file of the same names and shapes with other weights: the sign of all its data flipped."""
    start = 8 + int.from_bytes(model[:8], "little")
    data = np.frombuffer(model, np.uint8).copy()
    data[start + 1 :: 2] ^= 0x80
    return data.tobytes()


def _donor_checkpoint(scene: Scene, pair: Pairing) -> None:
    """Put the donor's weights into the checkpoint under a lock that says they are right."""
    model = pair.checkpoint / MODEL_FILE
    model.write_bytes(donor_model(model.read_bytes()))

    def change(lock: dict[str, Any]) -> None:
        for entry in lock["files"]:
            if entry["path"] == MODEL_FILE:
                entry["sha256"] = hash_file(model)[1]

    _edit(pair.checkpoint / LOCK_NAME, change)


def _moved_commit(_: Scene, pair: Pairing) -> None:
    def change(lock: dict[str, Any]) -> None:
        lock["commit"] = lock["commit"][::-1]

    _edit(pair.checkpoint / LOCK_NAME, change)


def _coreml_same_stem(scene: Scene, pair: Pairing) -> None:
    """Put an older Core ML package with its sidecar in place of the Core AI package of the same stem."""
    stem = scene.profile.package
    shutil.rmtree(_asset(scene, pair))
    package = pair.drafter / f"{stem}.mlpackage"
    (package / "Data" / "com.apple.CoreML" / "weights").mkdir(parents=True)
    item = {"author": "com.apple.CoreML", "description": "CoreML Model Specification", "name": "model.mlmodel"}
    item["path"] = "com.apple.CoreML/model.mlmodel"
    manifest = {"fileFormatVersion": "1.0.0", "itemInfoEntries": {"A": item}, "rootModelIdentifier": "A"}
    (package / "Manifest.json").write_bytes(dump_canonical(manifest))
    (package / "Data" / "com.apple.CoreML" / "model.mlmodel").write_bytes(b"\x08\x09")
    (package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin").write_bytes(bytes(64))
    _sidecar(scene, pair).write_bytes(dump_canonical({"quant": "lut4", "policy": "rtn", "size_gb": 0.9}))


def _foreign_sidecar(scene: Scene, pair: Pairing) -> None:
    """Copy the sidecar of another pair: the same checkpoint and target, calibrated on other traces."""
    quant, other = pair.drafter.parent / "other_quant", pair.drafter.parent / "other"
    scene.quantize(quant, calibration=scene.miniature.held_out, held_out=scene.miniature.calibration)
    scene.emit(other, quant=quant)
    shutil.copyfile(_sidecar(scene, replace(pair, drafter=other)), _sidecar(scene, pair))


def _moved_taps_of_target(_: Scene, pair: Pairing) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["taps"] = manifest["taps"][::-1]

    _edit(pair.target / "coreai" / MANIFEST_FILE, change)


SABOTAGES: tuple[Sabotage, ...] = (
    Sabotage(
        name="stale_head",
        story="the package was built with an older head under the same name",
        areas=("HEAD",),
        spoil=_stale_head,
    ),
    Sabotage(name="taps_permuted", story="two taps are in the other order", areas=("TAP",), spoil=_taps_permuted),
    Sabotage(name="taps_shifted", story="every tap is one layer later", areas=("TAP",), spoil=_taps_shifted),
    Sabotage(
        name="target_taps_reversed",
        story="the target's build exports its taps in reverse",
        areas=("TAP",),
        spoil=_moved_taps_of_target,
    ),
    Sabotage(
        name="tokenizer_reordered",
        story="two tokens of the target's tokenizer are exchanged",
        areas=("TOK",),
        spoil=_tokenizer_reordered,
    ),
    Sabotage(
        name="edited_weight",
        story="one weight in the asset was edited, all file hashes brought up to date",
        areas=("WGT",),
        spoil=_edited_weight,
    ),
    Sabotage(
        name="donor_checkpoint",
        story="the checkpoint is the donor's: same names and shapes",
        areas=("SRC",),
        spoil=_donor_checkpoint,
    ),
    Sabotage(
        name="moved_commit", story="the checkpoint's lock names another commit", areas=("SRC",), spoil=_moved_commit
    ),
    Sabotage(
        name="coreml_same_stem",
        story="a Core ML package of the same stem is in its place",
        areas=("PKG",),
        spoil=_coreml_same_stem,
    ),
    Sabotage(
        name="foreign_sidecar",
        story="the sidecar was copied from another pair",
        areas=("PKG", "WGT"),
        spoil=_foreign_sidecar,
    ),
)
