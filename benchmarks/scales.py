"""The sizes a synthetic release comes in, each as a profile of its own: the release's recipe, another geometry.

``full`` has the release's geometry. ``medium`` is a quarter of it in every width, for a quick benchmark; ``small`` is
for the tests of this tool. Names, repository and commit say that the release is synthetic: it can't be taken for
the real one, whose profile refuses it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from forgepack.profile import DEFAULT_PROFILE, Profile, parse_profile

MASK_TOKEN_TEXT = "<|audio_start|>"  # a token's text, no secret
# Ids from the end of the used ones, as in the release: 248,077 used, mask 248,070, end tokens 248,044 and 248,046.
ADDED_TOKENS = 33
_MASK_FROM_END = 7
_END_FROM_END = (33, 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceShape:
    """How much is recorded: sequences of the calibration and the held-out file, new tokens each, prompt lengths."""

    calibration: int
    held_out: int
    new_tokens: int
    prompt: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """One size: its profile, as JSON and parsed, and its traces. ``rank`` is the width of the features' signal."""

    name: str
    raw: dict[str, Any]
    profile: Profile
    traces: TraceShape
    contexts: tuple[int, ...]
    rank: int


_MEDIUM: dict[str, Any] = {
    "hidden": 1280,
    "vocab": 62080,
    "layers": 2,
    "heads": 8,
    "kv_heads": 2,
    "intermediate": 4352,
    "selector_rank": 64,
    "window": 512,
}
_SMALL: dict[str, Any] = {
    "hidden": 256,
    "vocab": 1024,
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 32,
    "intermediate": 640,
    "taps": [1, 3, 6, 9, 13],
    "target_layers": 16,
    "window": 64,
    "selector_rank": 16,
    "selector_top_k": 8,
}
_UNUSED = {"full": 243, "medium": 83, "small": 24}
_TRACES = {
    "full": TraceShape(calibration=32, held_out=8, new_tokens=256, prompt=(64, 128)),
    "medium": TraceShape(calibration=16, held_out=4, new_tokens=128, prompt=(48, 96)),
    "small": TraceShape(calibration=4, held_out=2, new_tokens=64, prompt=(16, 32)),
}
_CONTEXTS = {"full": (8192, 16384, 32768, 49152, 65536), "medium": (8192,), "small": (1024,)}
_RANK = {"full": 768, "medium": 192, "small": 48}
SCALES = tuple(_TRACES)


def make_scale(name: str) -> Scale:
    """Return the scale of that name; KeyError when there is none."""
    text = (resources.files("forgepack") / "profiles" / f"{DEFAULT_PROFILE}.json").read_text(encoding="utf-8")
    raw = json.loads(text)
    raw["geometry"].update({"full": {}, "medium": _MEDIUM, "small": _SMALL}[name])
    used = raw["geometry"]["vocab"] - _UNUSED[name]
    raw["geometry"]["mask_token"] = used - _MASK_FROM_END
    raw["name"] = f"synthetic-{name}"
    raw["hub"]["repo"] = f"synthetic/dflash2-{name}"
    raw["hub"]["commit"] = hashlib.sha256(raw["name"].encode()).hexdigest()[:40]
    raw["target"].update(
        name=f"synthetic-target-{name}",
        tokenizer_sha256=None,
        used_tokens=used,
        mask_token_text=MASK_TOKEN_TEXT,
        eos_tokens=[used - n for n in _END_FROM_END],
    )
    raw["known_bad"] = {}
    return Scale(
        name=name,
        raw=raw,
        profile=parse_profile(raw),
        traces=_TRACES[name],
        contexts=_CONTEXTS[name],
        rank=_RANK[name],
    )
