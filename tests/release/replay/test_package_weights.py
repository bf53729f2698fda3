"""A package read back as weights drafts as what it was made of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from forgepack.artifacts.checkpoint import read_checkpoint
from forgepack.artifacts.quant import read_quant
from forgepack.artifacts.target import locate_target, read_target
from forgepack.cli.main import run
from forgepack.drafter.head import open_head
from forgepack.drafter.weights import CheckpointWeights, QuantWeights
from forgepack.emit.package_weights import MASKED_NORM
from forgepack.errors import CorruptError, UsageError
from forgepack.geometry import checkpoint_tensors
from forgepack.miniature.scene import Scene
from forgepack.release.replay.package_weights import open_package


def test_every_tensor_is_the_quantized_drafters(scene: Scene) -> None:
    """Unfolding gives back each value bit for bit; the masked norm holds the mask scale in rows 1.."""
    geometry = scene.profile.geometry
    base = CheckpointWeights(checkpoint=read_checkpoint(scene.checkpoint, scene.profile), geometry=geometry)
    quant = QuantWeights(quant=read_quant(scene.quant, geometry), base=base)
    with open_package(scene.drafter, scene.profile) as opened:
        for name in checkpoint_tensors(geometry):
            if "codebook" in name:
                ids = np.array([[0, 7], [319, 258]])
                np.testing.assert_array_equal(quant.rows(name, ids), opened.weights.rows(name, ids))
            elif name != MASKED_NORM:
                np.testing.assert_array_equal(quant.tensor(name), opened.weights.tensor(name), err_msg=name)
        gains, plain = opened.weights.tensor(MASKED_NORM), quant.tensor(MASKED_NORM)
        np.testing.assert_array_equal(plain, gains[0])
        masked = (plain * np.float32(0.7)).astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(np.tile(masked, (geometry.block - 1, 1)), gains[1:])
        assert (0.7, True) == (opened.mask_scale, opened.folded)


def test_head_and_mask_row_are_the_targets(scene: Scene) -> None:
    """The package's own head gives the export's rows, across its parts; its mask row is the embedding's."""
    target = read_target(locate_target(scene.miniature.target))
    assert target.head is not None
    head = open_head(target.head, scene.profile.geometry)
    with open_package(scene.drafter, scene.profile) as opened:
        assert opened.head is not None
        assert head.vocab == opened.head.vocab
        for span in (slice(0, 320), slice(30, 99), slice(39, 40), slice(40, 80), slice(319, 320)):
            np.testing.assert_array_equal(head.part(span), opened.head.part(span))
        row = target.embedding.row(scene.profile.geometry.mask_token)
        np.testing.assert_array_equal(row, opened.mask_row)


def test_a_stated_mask_scale_that_does_not_fit_is_not_believed(scene: Scene, tmp_path: Path) -> None:
    """The scale is then taken from the constants, near the one that was folded in."""
    copy = Path(shutil.copytree(scene.drafter, tmp_path / "drafter"))
    sidecar = copy / f"{scene.profile.package}.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"mask_scale": 0.5}))
    with open_package(copy, scene.profile) as opened:
        assert opened.mask_scale == pytest.approx(0.7, abs=1e-3)
    sidecar.unlink()
    with open_package(copy, scene.profile) as opened:
        assert opened.mask_scale == pytest.approx(0.7, abs=1e-3)


def test_the_mask_scale_of_a_package_can_not_be_changed(scene: Scene) -> None:
    """It is part of the constants: asking for another one is a usage error."""
    with open_package(scene.drafter, scene.profile) as opened, pytest.raises(UsageError, match="mask scale"):
        opened.at_mask_scale(0.5)


def test_a_program_of_another_kind_is_refused(scene: Scene, tmp_path: Path) -> None:
    """The target's head package in the drafter's place has no constants of known meaning."""
    copy = Path(shutil.copytree(scene.drafter, tmp_path / "drafter"))
    asset = copy / f"{scene.profile.package}.aimodel"
    shutil.rmtree(asset)
    shutil.copytree(scene.miniature.target / "coreai/head_T8.aimodel", asset)
    with (
        pytest.raises(CorruptError, match="not one that this tool emits") as caught,
        open_package(copy, scene.profile),
    ):
        pass
    assert "package-replay" == caught.value.code


def test_a_package_replays_as_its_quantization(scene: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    """On the held-out traces the package drafts every block as the QUANT it was made of, with its own head."""
    mini = scene.miniature
    command = ["replay", str(scene.drafter), "--against", str(scene.quant), "--checkpoint", str(scene.checkpoint)]
    named = ["--traces", str(mini.held_out), "--target", str(mini.target), "--profile", "mini", "--json"]
    capfd.readouterr()
    assert run([*command, *named]) == 0
    quant, package = json.loads(capfd.readouterr().out)["drafters"]
    assert ("package", "package") == (package["kind"], package["head"])
    assert 1.0 == package["agreement"]["mean"]
    assert quant["acceptance"] == package["acceptance"]
    assert ["dflash2_lut4_gptq.aimodel/main.mlirb", "selector.safetensors"] == sorted(package["files"])
    assert run([*command, *named, "--mask-scale", "0.5"]) == 2
