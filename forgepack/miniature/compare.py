"""Acceptance and agreement of the miniature's variants on its held-out traces."""

from __future__ import annotations

from dataclasses import dataclass

from forgepack.artifacts.checkpoint import read_checkpoint
from forgepack.artifacts.quant import read_quant
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.target import locate_target, read_target
from forgepack.artifacts.traces import read_traces
from forgepack.drafter.comparison import Variant as Named
from forgepack.drafter.comparison import compare
from forgepack.drafter.draft import Drafter
from forgepack.drafter.head import Head, open_head
from forgepack.drafter.statistics import Acceptance
from forgepack.drafter.weights import CheckpointWeights, DrafterWeights, QuantWeights
from forgepack.errors import MissingError
from forgepack.miniature.scene import Scene
from forgepack.parallel import open_pool

REFERENCE = "unquantized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One variant's acceptance (accepted drafts per block) and its agreement with the unquantized drafter, 0..1."""

    acceptance: Acceptance
    agreement: float


def compare_variants(scene: Scene) -> dict[str, Variant]:
    """Replay unquantized, RTN, GPTQ and stale head over the held-out traces."""
    traces = read_traces(scene.miniature.held_out, scene.profile.geometry)
    named = [Named(name=name, drafter=drafter) for name, drafter in _drafters(scene).items()]
    with open_pool(scene.threads) as pool:
        found = compare(named, traces, pool=pool)
    return {
        one.name: Variant(
            acceptance=one.acceptance,
            agreement=1.0 if one.against is None else one.against.agreement.blocks.mean,
        )
        for one in found
    }


def _drafters(scene: Scene) -> dict[str, Drafter]:
    geometry = scene.profile.geometry
    base = CheckpointWeights(checkpoint=read_checkpoint(scene.checkpoint, scene.profile), geometry=geometry)
    target = read_target(locate_target(scene.miniature.target))
    if target.head is None:
        raise MissingError("the miniature's target has no export", where=str(scene.miniature.target))
    head, stale = (open_head(file, geometry) for file in (target.head, read_safetensors(scene.miniature.stale_head)))
    gptq, rtn = (QuantWeights(quant=read_quant(p, geometry), base=base) for p in (scene.quant, scene.rounded))
    scale = scene.profile.recipe.mask_scale
    variants: dict[str, tuple[DrafterWeights, Head]] = {
        REFERENCE: (base, head),
        "lut4_rtn": (rtn, head),
        "lut4_gptq": (gptq, head),
        "stale_head": (base, stale),
    }
    return {
        name: Drafter(weights=weights, head=used, embedding=target.embedding, mask_scale=scale)
        for name, (weights, used) in variants.items()
    }
