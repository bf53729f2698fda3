"""A synthetic byte-pair tokenizer of any size, in the format of the ``tokenizers`` library.

Every token but the single characters joins two earlier ones, so that the merges are consistent; the last ids are
added tokens, the mask token among them.
"""

from __future__ import annotations

from typing import Any

from benchmarks.noise import Noise
from benchmarks.scales import ADDED_TOKENS
from forgepack.profile import TargetPin

_LONGEST = 14


def tokenizer_json(pin: TargetPin, mask_token: int, noise: Noise) -> dict[str, Any]:
    """Return tokenizer.json's content: ``pin.used_tokens`` ids, the mask token's text at ``mask_token``."""
    first_added = pin.used_tokens - ADDED_TOKENS
    tokens, merges = _merged(first_added, noise)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added(number, pin.mask_token_text if number == mask_token else f"<|added_{number - first_added}|>")
            for number in range(first_added, pin.used_tokens)
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": False,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {text: number for number, text in enumerate(tokens)},
            "merges": merges,
        },
    }


def _added(number: int, text: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": text, **flags}


def byte_characters() -> list[str]:
    """Return the 256 printable characters that byte-level tokenizers write bytes as, in byte order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(n) if n in printable else chr(next(spare)) for n in range(256)]


def _merged(count: int, noise: Noise) -> tuple[list[str], list[list[str]]]:
    tokens, merges = byte_characters(), []
    known = set(tokens)
    draw = noise.generator("vocabulary")
    while len(tokens) < count:
        pairs = draw.integers(0, len(tokens), (4096, 2))
        for left, right in pairs.tolist():
            pair = [tokens[left], tokens[right]]
            text = "".join(pair)
            if len(text) > _LONGEST or text in known:
                continue
            known.add(text)
            tokens.append(text)
            merges.append(pair)
            if len(tokens) == count:
                break
    return tokens, merges
