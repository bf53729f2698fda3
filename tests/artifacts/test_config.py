"""Drafter and target configs: every difference is found, keys that change the maths are refused."""

from __future__ import annotations

import copy
import json
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


@pytest.mark.parametrize("value", [None, 0, -1, "8", True, 8.5])
def test_a_target_needs_its_numbers(tmp_path: Path, value: Any) -> None:
    """A missing, zero, negative or ill-typed size is a fault that names the key."""
    raw = {"hidden_size": value, "vocab_size": 40, "num_hidden_layers": 8}
    with pytest.raises(CorruptError) as caught:
        read_target_config(target(tmp_path, raw))
    assert ("config-value", True) == (caught.value.code, "hidden_size" in str(caught.value))
