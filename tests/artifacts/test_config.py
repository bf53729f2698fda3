"""Drafter and target configs: every difference is found, keys that change the maths are refused."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forgepack.artifacts.config import read_drafter_config, read_target_config
from forgepack.errors import CorruptError
from forgepack.profile import load_profile

RELEASE: dict[str, Any] = {
    "architectures": ["DFlash2DraftModel"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "is_causal": False,
    "dflash_config": {
        "block_size": 8,
        "conv_group_size": 16,
        "conv_kernel_size": 2,
        "mask_token_id": 248070,
        "selector_rank": 256,
        "selector_top_k": 16,
        "target_layer_ids": [5, 19, 33, 47, 61],
    },
    "dtype": "bfloat16",
    "eos_token_id": 248044,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 5120,
    "initializer_range": 0.02,
    "intermediate_size": 17408,
    "layer_types": ["sliding_attention"] * 5,
    "max_position_embeddings": 262144,
    "max_window_layers": 5,
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "num_target_layers": 64,
    "pad_token_id": 248044,
    "rms_norm_eps": 1e-06,
    "rope_parameters": {"rope_theta": 10000000, "rope_type": "default"},
    "sliding_window": 2048,
    "tie_word_embeddings": False,
    "transformers_version": "5.15.0",
    "use_cache": True,
    "use_sliding_window": True,
    "vocab_size": 248320,
}


def faults(tmp_path: Path, config: dict[str, Any]) -> list[tuple[str, str]]:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return [(f.path, f.code) for f in read_drafter_config(path).faults(load_profile().geometry)]


def test_the_release_config_has_no_fault(tmp_path: Path) -> None:
    """The public config of this drafter family is the profile's."""
    assert [] == faults(tmp_path, RELEASE)


CHANGES: dict[str, tuple[str, Any, str]] = {
    "output multiplier": ("output_multiplier", 0.19611613513818404, "unimplemented"),
    "softcapping": ("final_logit_softcapping", 20.0, "unimplemented"),
    "embedding scale": ("input_embedding_scale", 2.0, "unimplemented"),
    "causal": ("is_causal", True, "unimplemented"),
    "activation": ("hidden_act", "gelu", "unimplemented"),
    "bias": ("attention_bias", True, "unimplemented"),
    "tied head": ("tie_word_embeddings", True, "unimplemented"),
    "quantized": ("quantization_config", {"bits": 4}, "unimplemented"),
    "dtype": ("dtype", "float16", "dtype"),
    "unknown key": ("brand_new_switch", 1, "unknown-key"),
    "hidden": ("hidden_size", 4096, "value"),
    "hidden as text": ("hidden_size", "5120", "value"),
    "layers as float": ("num_hidden_layers", 4.5, "value"),
    "flag for a number": ("num_key_value_heads", True, "value"),
    "taps shifted": ("dflash_config.target_layer_ids", [6, 20, 34, 48, 62], "value"),
    "taps guessed": ("dflash_config.target_layer_ids", [1, 16, 31, 46, 61], "value"),
    "mask token": ("dflash_config.mask_token_id", -1, "value"),
    "inner unknown key": ("dflash_config.top_p", 0.9, "unknown-key"),
    "theta": ("rope_parameters.rope_theta", 10000, "value"),
    "rope type": ("rope_parameters.rope_type", "yarn", "unimplemented"),
    "rope factor": ("rope_parameters.factor", 2.0, "unimplemented"),
    "kind": ("architectures", ["DFlash3"], "kind"),
    "full attention": ("layer_types", ["full_attention"] * 5, "value"),
    "no window": ("use_sliding_window", False, "unimplemented"),
    "window of null": ("sliding_window", None, "value"),
    "sizes with a fraction": ("hidden_size", 5120.0, "value"),
    "heads of null are as many as query heads": ("num_key_value_heads", None, "value"),
    "eps": ("rms_norm_eps", 1e-05, "value"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_one_change_is_one_fault_at_its_path(tmp_path: Path, name: str) -> None:
    """Each changed key is found alone, at its JSON path, with the code of its kind."""
    path, value, code = CHANGES[name]
    config = copy.deepcopy(RELEASE)
    *outer, last = path.split(".")
    node = config
    for key in outer:
        node = node[key]
    node[last] = value
    assert [(path, code)] == faults(tmp_path, config)


def test_absent_taps_are_missing_never_derived(tmp_path: Path) -> None:
    """Without target_layer_ids the config is at fault; no formula fills the gap."""
    config = copy.deepcopy(RELEASE)
    del config["dflash_config"]["target_layer_ids"]
    assert faults(tmp_path, config) == [("dflash_config.target_layer_ids", "missing")]


def test_equal_numbers_in_other_spelling_pass(tmp_path: Path) -> None:
    """10000000 and 1e7 are one number."""
    assert [] == faults(tmp_path, RELEASE | {"rope_parameters": {"rope_theta": 1e7, "rope_type": "default"}})


@pytest.mark.parametrize("name", ["glm", "muse"])
def test_public_configs_of_the_family_state_what_has_no_default(tmp_path: Path, name: str) -> None:
    """Real configs of other targets differ in sizes and known keys alone: nothing is missing by a default."""
    differing: dict[str, dict[str, Any]] = {
        "glm": {"use_cache": False, "eos_token_id": [1, 2]},
        "muse": {"bos_token_id": 200000},
    }
    assert [] == faults(tmp_path, RELEASE | differing[name])


DROPPED: dict[str, tuple[tuple[str, ...], dict[str, Any], list[str]]] = {
    "neither kinds nor switch": (("layer_types", "use_sliding_window"), {}, ["layer_types", "use_sliding_window"]),
    "kinds alone": (("layer_types",), {}, ["layer_types"]),
    "kinds, from layer 0 on": (("layer_types",), {"max_window_layers": 0}, []),
    "kinds, from layer 1 on": (("layer_types",), {"max_window_layers": 1}, ["layer_types"]),
    "kinds, first layer not stated": (("layer_types", "max_window_layers"), {}, ["layer_types"]),
    "switch alone": (("use_sliding_window",), {}, ["use_sliding_window"]),
    "kinds of null": ((), {"layer_types": None}, ["layer_types"]),
    "causality": (("is_causal",), {}, []),
    "rope object, flat base": (("rope_parameters",), {"rope_theta": 1e7}, []),
    "rope object, another flat base": (("rope_parameters",), {"rope_theta": 1e6}, ["rope_parameters.rope_theta"]),
    "rope object": (("rope_parameters",), {}, ["rope_parameters.rope_theta"]),
    "base inside, flat base": ((), {"rope_parameters": {"rope_type": "default"}, "rope_theta": 10000000}, []),
}


@pytest.mark.parametrize("name", DROPPED)
def test_what_is_not_stated_counts_as_readers_fill_it_in(tmp_path: Path, name: str) -> None:
    """A key that is left out means its default: without kinds of attention and switch, there is no window."""
    dropped, added, expected = DROPPED[name]
    config = {key: value for key, value in RELEASE.items() if key not in dropped} | added
    assert expected == [path for path, _ in faults(tmp_path, config)]


SPELLINGS = [
    ("rope_theta", "10000000.0"),
    ("rope_theta", "1e7"),
    ("rms_norm_eps", "0.000001"),
    ("rms_norm_eps", "1E-6"),
]


@pytest.mark.parametrize(("key", "text"), SPELLINGS)
def test_floating_values_are_numbers(tmp_path: Path, key: str, text: str) -> None:
    """What readers take as floating point may be written in any way; the profile may hold it either way, too."""
    data = json.dumps(RELEASE).replace(f'"{key}": {json.dumps(_stated(key))}', f'"{key}": {text}')
    assert text in data
    path = tmp_path / "config.json"
    path.write_text(data)
    geometry = load_profile().geometry
    for profile in (geometry, replace(geometry, rope_theta=10000000), replace(geometry, rope_theta=1e7)):
        assert [] == list(read_drafter_config(path).faults(profile))


def _stated(key: str) -> Any:
    return RELEASE.get(key, RELEASE["rope_parameters"].get(key))


def target(tmp_path: Path, config: Any) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return path


def test_nested_text_config_is_read(tmp_path: Path) -> None:
    """Values below text_config are the target's; several end tokens are kept in order."""
    inner = {"hidden_size": 8, "vocab_size": 40, "num_hidden_layers": 8, "eos_token_id": [3, 5]}
    config = read_target_config(target(tmp_path, {"model_type": "qwen3_vl", "text_config": inner}))
    assert (config.hidden, config.vocab, config.layers, config.eos_tokens, config.conflicts) == (8, 40, 8, (3, 5), ())


def test_outer_against_inner_is_a_conflict(tmp_path: Path) -> None:
    """A value that outer and nested object state differently is listed; the wrapper's own name is not."""
    inner = {"hidden_size": 8, "vocab_size": 40, "num_hidden_layers": 8, "model_type": "text"}
    raw = {"model_type": "outer", "vocab_size": 41, "text_config": inner}
    assert [f.path for f in read_target_config(target(tmp_path, raw)).conflicts] == ["text_config.vocab_size"]


ROPE = {"rope_theta": 10000, "rope_type": "default"}
TWICE: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "flat base inside": ({}, {"rope_parameters": ROPE, "rope_theta": 5}, ["text_config.rope_theta"]),
    "flat base outside": ({"rope_parameters": ROPE, "rope_theta": 5}, {}, ["rope_theta"]),
    "base outside, object inside": (
        {"rope_theta": 5},
        {"rope_parameters": ROPE},
        ["text_config: base of the rotary embedding"],
    ),
    "objects": ({"rope_parameters": {"rope_theta": 5}}, {"rope_parameters": ROPE}, ["text_config.rope_parameters"]),
    "type of scaling": (
        {},
        {"rope_parameters": ROPE, "rope_scaling": {"type": "yarn"}},
        ["text_config.rope_scaling.type"],
    ),
    "types": ({"dtype": "float16", "torch_dtype": "bfloat16"}, {}, ["torch_dtype"]),
    "kinds of more layers": ({}, {"layer_types": ["full_attention"] * 9}, ["text_config.length of layer_types"]),
    "equal numbers": ({"rope_theta": 10000.0}, {"rope_parameters": ROPE, "rope_theta": 1e4}, []),
    "kinds of all layers": ({}, {"layer_types": ["full_attention"] * 8}, []),
}


@pytest.mark.parametrize("name", TWICE)
def test_what_a_target_states_twice_agrees(tmp_path: Path, name: str) -> None:
    """Flat keys and rope_parameters, outer and nested, both names of the type: two values are a conflict."""
    outer, inner, expected = TWICE[name]
    sizes = {"hidden_size": 8, "vocab_size": 40, "num_hidden_layers": 8}
    config = read_target_config(target(tmp_path, {**outer, "text_config": {**sizes, **inner}}))
    assert expected == [fault.path for fault in config.conflicts]
    assert all(fault.other for fault in config.conflicts)


@pytest.mark.parametrize("value", [None, 0, -1, "8", True, 8.5])
def test_a_target_needs_its_numbers(tmp_path: Path, value: Any) -> None:
    """A missing, zero, negative or ill-typed size is a fault that names the key."""
    raw = {"hidden_size": value, "vocab_size": 40, "num_hidden_layers": 8}
    with pytest.raises(CorruptError) as caught:
        read_target_config(target(tmp_path, raw))
    assert ("config-value", True) == (caught.value.code, "hidden_size" in str(caught.value))
