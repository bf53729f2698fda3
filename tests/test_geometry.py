"""The release's numbers, as the contract states them."""

from __future__ import annotations

import math

from forgepack.geometry import checkpoint_tensors, quant_tensors
from forgepack.profile import load_profile


def test_release_checkpoint_has_81_tensors_of_3848808960_bytes() -> None:
    """Shapes that follow from the profile add up to the payload of contract 1.2."""
    tensors = checkpoint_tensors(load_profile().geometry)
    assert (len(tensors), 2 * sum(math.prod(s) for s in tensors.values())) == (81, 3_848_808_960)


def test_release_quant_has_128_tensors_of_1796235392_bytes() -> None:
    """Shapes and dtypes of drafter_quant.safetensors add up to the payload of contract 3."""
    tensors = quant_tensors(load_profile().geometry)
    width = {"F16": 2, "U8": 1, "I8": 1}
    assert (len(tensors), sum(width[d] * math.prod(s) for d, s in tensors.values())) == (128, 1_796_235_392)


def test_taps_keep_their_order_and_have_their_hugging_face_twin() -> None:
    """Tap ids are layer outputs counted from zero; hidden_states indices are one more."""
    geometry = load_profile().geometry
    assert (geometry.taps, geometry.hf_taps) == ((5, 19, 33, 47, 61), (6, 20, 34, 48, 62))
    assert geometry.features == 25_600
