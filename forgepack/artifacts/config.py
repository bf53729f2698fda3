"""config.json of a drafter and of a target, parsed into the values that a contract compares.

A drafter key that would change the maths and that this tool does not implement is a fault, never ignored:
other public DFlash2 checkpoints set ``output_multiplier`` and ``final_logit_softcapping``. What a config does not
state counts as its readers fill it in (``config_defaults``).

Numbers: sizes, counts and ids must be written as whole numbers, since readers count with them and fail on 8.0. For
the few values that readers take as floating point (``rope_theta``, ``rms_norm_eps`` and factors) 10000 and 10000.0
are one number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.config_defaults import (
    DEFAULTS,
    SLIDING,
    key_value_heads,
    layer_types,
    rope_theta,
    stated_twice,
)
from forgepack.artifacts.files import read_bounded
from forgepack.canonical import parse_object, sha256_hex
from forgepack.errors import CorruptError, ForgepackError
from forgepack.geometry import Geometry
from forgepack.json_values import equal_json

ARCHITECTURE = "DFlash2DraftModel"

# Keys whose given value alone is implemented; absent means the same, unless DEFAULTS says otherwise.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "attention_bias": (False,),
    "attention_dropout": (0.0,),
    "is_causal": (False,),
    "hidden_act": ("silu",),
    "tie_word_embeddings": (False,),
    "input_embedding_scale": (1.0, None),
    "output_multiplier": (1.0, None),
    "final_logit_softcapping": (None,),
    "attn_logit_softcapping": (None,),
    "logit_scale": (1.0, None),
    "rope_scaling": (None,),
    "quantization_config": (None,),
    "use_sliding_window": (True,),
    "model_type": ("qwen3",),
    "dtype": ("bfloat16",),
    "torch_dtype": ("bfloat16",),
}
# Keys that say nothing about the maths of a drafter, and why.
INERT: Mapping[str, str] = {
    "bos_token_id": "a block starts at the anchor that the target accepted",
    "pad_token_id": "nothing is padded with tokens",
    "initializer_range": "training alone draws weights",
    "max_position_embeddings": "rotary angles are computed by position, not looked up",
    "max_window_layers": "read only where layer_types is not stated; then it is checked with layer_types",
    "transformers_version": "names the library that saved the file",
    "use_cache": "the host owns the ring",
    "_name_or_path": "names the folder that the file was saved from",
}
# Read as floating point: 1 and 1.0 are one value.
_FLOATS = frozenset({"rms_norm_eps"})
_TOP: Mapping[str, str] = {
    "hidden_size": "hidden",
    "vocab_size": "vocab",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "intermediate_size": "intermediate",
    "num_target_layers": "target_layers",
    "sliding_window": "window",
    "rms_norm_eps": "rms_eps",
}
# Checked by lines of their own above, or by a rule of vocabulary.
_ELSEWHERE = ("architectures", "dflash_config", "eos_token_id", "layer_types", "rope_parameters", "rope_theta")
_DFLASH: Mapping[str, str] = {
    "block_size": "block",
    "conv_group_size": "conv_group",
    "conv_kernel_size": "conv_kernel",
    "mask_token_id": "mask_token",
    "selector_rank": "selector_rank",
    "selector_top_k": "selector_top_k",
    "target_layer_ids": "taps",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFault:
    """One difference between a config and what is demanded: JSON path, both values, and a short code.

    ``other`` is the place that states ``expected``, where that is another place of the same file.
    """

    path: str
    expected: str
    found: str
    code: str
    other: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterConfig:
    """A drafter's config.json: raw object, identity of its bytes, and the taps as it states them."""

    path: Path
    raw: Mapping[str, Any]
    sha256: str

    @property
    def taps(self) -> Any:
        """``dflash_config.target_layer_ids`` as written, None when absent: never derived."""
        inner = self.raw.get("dflash_config")
        return inner.get("target_layer_ids") if isinstance(inner, dict) else None

    @property
    def eos_tokens(self) -> Any:
        """``eos_token_id`` as written, one id as a list of one; empty when absent or null."""
        stated = self.raw.get("eos_token_id")
        return stated if isinstance(stated, list) else [] if stated is None else [stated]

    def faults(self, geometry: Geometry) -> Iterator[ConfigFault]:
        """Yield every way in which this config is not the one of ``geometry``."""
        raw = self.raw
        inner = raw.get("dflash_config")
        if raw.get("architectures") != [ARCHITECTURE]:
            yield _fault("architectures", [ARCHITECTURE], raw.get("architectures"), "kind")
        yield from _compare(raw, _TOP, geometry, "")
        if isinstance(inner, dict):
            yield from _compare(inner, _DFLASH, geometry, "dflash_config.")
            for key in sorted(set(inner) - set(_DFLASH)):
                yield _fault(f"dflash_config.{key}", "absent", inner[key], "unknown-key")
        else:
            yield _fault("dflash_config", "an object", inner, "missing")
        yield from self._rope_faults(geometry)
        kinds, expected = layer_types(raw, geometry.layers), [SLIDING] * geometry.layers
        if kinds != expected:
            stated = raw.get("layer_types") is not None
            found = kinds if stated else f"not stated, so by default {kinds}"
            yield _fault("layer_types", expected, found, "value" if stated else "missing")
        for key, default in DEFAULTS.items():
            if key not in raw:
                yield _fault(key, NEUTRAL[key][0], f"not stated, so by default {default}", "missing")
        yield from self._other_faults()

    def _rope_faults(self, geometry: Geometry) -> Iterator[ConfigFault]:
        rope, theta = self.raw.get("rope_parameters"), rope_theta(self.raw)
        if not equal_json(theta, float(geometry.rope_theta)):
            yield _fault("rope_parameters.rope_theta", geometry.rope_theta, theta, "value")
        yield from (one for one in _conflicts_inside(self.raw) if "rope" in one.path)
        if rope is not None and not isinstance(rope, Mapping):
            yield _fault("rope_parameters", "an object", rope, "value")
        elif rope is not None:
            if rope.get("rope_type", "default") != "default":
                yield _fault("rope_parameters.rope_type", "default", rope["rope_type"], "unimplemented")
            for key in sorted(set(rope) - {"rope_theta", "rope_type"}):
                yield _fault(f"rope_parameters.{key}", "absent", rope[key], "unimplemented")

    def _other_faults(self) -> Iterator[ConfigFault]:
        known = {*_TOP, *INERT, *NEUTRAL, *_ELSEWHERE}
        for key in sorted(self.raw):
            value = self.raw[key]
            if key in NEUTRAL and not any(equal_json(value, v) for v in NEUTRAL[key]):
                code = "dtype" if key in ("dtype", "torch_dtype") else "unimplemented"
                yield _fault(key, NEUTRAL[key][0], value, code)
            elif key not in known:
                yield _fault(key, "absent", value, "unknown-key")


def _compare(
    raw: Mapping[str, Any], keys: Mapping[str, str], geometry: Geometry, prefix: str
) -> Iterator[ConfigFault]:
    for key, name in keys.items():
        expected: Any = getattr(geometry, name)
        expected = list(expected) if isinstance(expected, tuple) else expected
        expected = float(expected) if key in _FLOATS else expected
        found = key_value_heads(raw) if key == "num_key_value_heads" else raw.get(key)
        if not equal_json(found, expected):
            yield _fault(prefix + key, expected, found, "missing" if key not in raw else "value")


def _agree(one: Any, other: Any) -> bool:
    """Whether two statements are one: 10000000 and 1e7 are one number, true and 1 are not."""
    return equal_json(one, other) or equal_json(other, one)


def _fault(path: str, expected: Any, found: Any, code: str, other: str = "") -> ConfigFault:
    return ConfigFault(path=path, expected=str(expected)[:200], found=str(found)[:200], code=code, other=other)


def read_drafter_config(path: Path) -> DrafterConfig:
    """Read a drafter's config.json; its values are checked by ``DrafterConfig.faults``."""
    data = read_bounded(path)
    return DrafterConfig(path=path, raw=parse_object(data, where=str(path)), sha256=sha256_hex(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """A target's config.json: the values that a pair shares, taken from ``text_config`` where there is one.

    ``conflicts`` lists keys that outer and nested object give different values for.
    """

    path: Path
    raw: Mapping[str, Any]
    sha256: str
    hidden: int
    vocab: int
    layers: int
    eos_tokens: tuple[int, ...]
    conflicts: tuple[ConfigFault, ...]

    @property
    def stated(self) -> dict[str, Any]:
        """Every value by its key, the nested one where both places state it."""
        nested = self.raw.get("text_config")
        return {**self.raw, **(nested if isinstance(nested, dict) else {})}


def read_target_config(path: Path) -> TargetConfig:
    """Read a target's config.json; CorruptError when hidden size, vocabulary or layer count are not there."""
    data = read_bounded(path)
    raw = parse_object(data, where=str(path))
    nested = raw.get("text_config")
    inner = nested if isinstance(nested, dict) else raw
    conflicts = tuple(_all_conflicts(raw, inner))
    values: dict[str, Any] = {
        key: inner.get(key, raw.get(key)) for key in ("hidden_size", "vocab_size", "num_hidden_layers")
    }
    for key, value in values.items():
        if type(value) is not int or value <= 0:
            raise _missing_value(path, key, value)
    eos = inner.get("eos_token_id", raw.get("eos_token_id"))
    eos_list = eos if isinstance(eos, list) else [] if eos is None else [eos]
    if not all(type(e) is int for e in eos_list):
        raise _missing_value(path, "eos_token_id", eos)
    return TargetConfig(
        path=path,
        raw=raw,
        sha256=sha256_hex(data),
        hidden=values["hidden_size"],
        vocab=values["vocab_size"],
        layers=values["num_hidden_layers"],
        eos_tokens=tuple(eos_list),
        conflicts=conflicts,
    )


def _conflicts(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> Iterator[ConfigFault]:
    # model_type and architectures name the wrapper outside and the text model inside: legal by design.
    for key in sorted(set(outer) & set(inner) - {"model_type", "architectures", "transformers_version"}):
        if not _agree(outer[key], inner[key]):
            yield _fault(f"text_config.{key}", outer[key], inner[key], "conflict", key)


def _all_conflicts(raw: Mapping[str, Any], inner: Mapping[str, Any]) -> Iterator[ConfigFault]:
    """Yield what a target's config states in two ways: inside one object, and outside and inside text_config."""
    yield from _conflicts_inside(raw)
    if inner is not raw:
        yield from _conflicts(raw, inner)
        yield from _conflicts_inside(inner, "text_config.")
        outer, nested = rope_theta(raw), rope_theta(inner)
        apart = not {"rope_theta", "rope_parameters"} & set(raw) & set(inner)
        if apart and outer is not None and nested is not None and not _agree(outer, nested):
            yield _fault("text_config: base of the rotary embedding", outer, nested, "conflict", "the outer object")


def _conflicts_inside(raw: Mapping[str, Any], prefix: str = "") -> Iterator[ConfigFault]:
    for other, expected, path, found in stated_twice(raw):
        if not _agree(expected, found):
            yield _fault(prefix + path, expected, found, "conflict", prefix + other)


def _missing_value(path: Path, key: str, value: Any) -> ForgepackError:
    return CorruptError(
        "the target's config lacks a value",
        where=f"{path}: {key}",
        expected="a positive integer",
        found=repr(value),
        code="config-value",
    )
