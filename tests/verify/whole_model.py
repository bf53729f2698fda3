"""The optional files of model/, as Qwen's repositories hold them, in agreement with the tiny target's tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forgepack.profile import Profile
from tests.verify.factory import write_json

TEMPLATE = "{{ messages }}"


def write_model_files(model: Path, profile: Profile) -> None:
    """Write all eight of them beside config, tokenizer and embedding, and give the tokenizer merges."""
    raw = json.loads((model / "tokenizer.json").read_bytes())
    first = list(raw["model"]["vocab"])[:5]
    merges = raw["model"]["merges"] or [[first[0], first[1]], [first[2], first[3]], [first[0], first[4]]]
    raw["model"]["merges"] = merges
    write_json(model / "tokenizer.json", raw)
    added = {entry["content"]: entry["id"] for entry in raw["added_tokens"]}
    ends = sorted(profile.target.eos_tokens)
    text = {number: content for content, number in added.items()}
    write_json(model / "added_tokens.json", added)
    write_json(model / "vocab.json", {t: n for t, n in raw["model"]["vocab"].items() if t not in added})
    lines = [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
    (model / "merges.txt").write_bytes("\n".join(["#version: 0.2", *lines, ""]).encode())
    special = {"eos_token": {"content": text[ends[0]], "lstrip": False}, "pad_token": text[ends[-1]]}
    write_json(model / "special_tokens_map.json", {**special, "additional_special_tokens": list(added)[:2]})
    generation = {"eos_token_id": ends, "pad_token_id": ends[0], "bos_token_id": None, "temperature": 0.6}
    write_json(model / "generation_config.json", generation)
    (model / "chat_template.jinja").write_text(f"{TEMPLATE}\n")
    write_json(model / "chat_template.json", {"chat_template": TEMPLATE})
    (model / "tokenizer.model").write_bytes(b"\x0a\x0b\x0a\x05<unk>\x15" + bytes(range(64)))
    settings: dict[str, Any] = json.loads((model / "tokenizer_config.json").read_bytes())
    decoder = {str(number): {"content": content, "special": True} for content, number in added.items()}
    write_json(
        model / "tokenizer_config.json",
        {**settings, "chat_template": TEMPLATE, "added_tokens_decoder": decoder, "eos_token": text[ends[0]]},
    )
