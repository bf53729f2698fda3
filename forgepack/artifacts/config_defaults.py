"""What a config means where it does not state a value: the defaults of the readers of model type qwen3.

A config that leaves a key out still says something: every reader fills the gap by the same rules, and a drafter
whose window is switched off by a default is another drafter. Source: the public readers of this model type, which
build ``layer_types`` from ``use_sliding_window``, ``sliding_window`` and ``max_window_layers``. ``is_causal`` has no
default here: the drafter's architecture attends both ways by itself, and a config may repeat it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SLIDING, FULL = "sliding_attention", "full_attention"
# What readers take for a key that is not there. Only keys whose default is not what a drafter of this family needs.
DEFAULTS: Mapping[str, Any] = {"use_sliding_window": False}
_WINDOW, _FIRST_SLIDING = 4096, 28


def layer_types(raw: Mapping[str, Any], layers: int) -> Any:
    """Return the kinds of attention by layer: as stated, or as readers derive them where nothing is stated."""
    stated = raw.get("layer_types")
    if stated is not None:
        return stated
    sliding = raw.get("use_sliding_window", DEFAULTS["use_sliding_window"]) is True
    first = raw.get("max_window_layers", _FIRST_SLIDING)
    if not sliding or raw.get("sliding_window", _WINDOW) is None or type(first) is not int:
        return [FULL] * layers
    return [SLIDING if layer >= first else FULL for layer in range(layers)]


def key_value_heads(raw: Mapping[str, Any]) -> Any:
    """Return the number of key and value heads: null means one for each query head."""
    stated = raw.get("num_key_value_heads")
    stated_null = "num_key_value_heads" in raw and stated is None
    return raw.get("num_attention_heads") if stated_null else stated


def rope_theta(raw: Mapping[str, Any]) -> Any:
    """Return the base of the rotary embedding: the one in rope_parameters, else the flat one; None without either."""
    inner = raw.get("rope_parameters")
    flat = raw.get("rope_theta")
    return inner.get("rope_theta", flat) if isinstance(inner, Mapping) else flat


# Pairs of places of one object that state the same thing; the first is what readers take.
_TWICE = (
    (("rope_parameters", "rope_theta"), ("rope_theta",)),
    (("rope_parameters", "rope_theta"), ("rope_scaling", "rope_theta")),
    (("rope_parameters", "rope_type"), ("rope_scaling", "rope_type")),
    (("rope_parameters", "rope_type"), ("rope_scaling", "type")),
    (("rope_parameters", "partial_rotary_factor"), ("partial_rotary_factor",)),
    (("dtype",), ("torch_dtype",)),
)


def stated_twice(raw: Mapping[str, Any]) -> Iterator[tuple[str, Any, str, Any]]:
    """Yield (path, value, other path, other value) of what one object states in two places."""
    for first, second in _TWICE:
        one, other = _at(raw, first), _at(raw, second)
        if one is not None and other is not None:
            yield ".".join(first), one, ".".join(second), other
    kinds, layers = raw.get("layer_types"), raw.get("num_hidden_layers")
    if isinstance(kinds, list) and layers is not None:
        yield "num_hidden_layers", layers, "length of layer_types", len(kinds)


def _at(raw: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw
