"""The pair check of the release's own scripts, written again from its description (contract, section 7).

It shares nothing with the verifier: JSON and struct alone. The numbers that the release fixes are arguments here,
because the tests' pairs are smaller.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Numbers = Mapping[str, int]


def pair_faults(root: Path, stem: str, numbers: Numbers) -> Iterator[str]:
    """Yield what is wrong with ``root``/drafter against ``root``/target; nothing for a good pair."""
    drafter, target = root / "drafter", root / "target"
    config = json.loads((drafter / "config.json").read_text())
    sidecar = json.loads((drafter / f"{stem}.json").read_text())
    manifest = json.loads((target / "coreai/manifest.json").read_text())
    text = json.loads((target / "model/config.json").read_text())["text_config"]
    yield from _numbers(config, sidecar, text, numbers)
    if config["dflash_config"]["target_layer_ids"] != manifest["taps"]:
        yield "taps"
    yield from _names(sidecar, manifest)
    yield from _selector(drafter / "selector.safetensors", numbers)
    entries = sidecar["entries"]
    if set(entries) != {"draft", "ctx64"} or "logits" not in entries.get("draft", {}).get("outputs", ()):
        yield "entries"


def _numbers(
    config: dict[str, Any], sidecar: dict[str, Any], text: dict[str, Any], numbers: Numbers
) -> Iterator[str]:
    inner = config["dflash_config"]
    equal = {
        "block_size": (inner["block_size"], numbers["block"]),
        "num_target_layers": (config["num_target_layers"], numbers["target_layers"]),
        "hidden_size": (config["hidden_size"], text["hidden_size"]),
        "vocab_size": (config["vocab_size"], text["vocab_size"]),
        "T": (sidecar["T"], numbers["block"]),
        "R": (sidecar["R"], numbers["context_rows"]),
        "RP": (sidecar["RP"], numbers["prefill_rows"]),
        "W": (sidecar["W"], config["sliding_window"]),
        "num_hidden_layers": (config["num_hidden_layers"], numbers["layers"]),
        "head_dim": (config["head_dim"], numbers["head_dim"]),
        "num_key_value_heads": (config["num_key_value_heads"], numbers["kv_heads"]),
        "selector_rank": (inner["selector_rank"], numbers["selector_rank"]),
    }
    yield from (name for name, (found, expected) in equal.items() if found != expected)


def _names(sidecar: dict[str, Any], manifest: dict[str, Any]) -> Iterator[str]:
    name = manifest["export"].rsplit("/", 1)[-1]
    if sidecar["target_export"].rsplit("/", 1)[-1] != name:
        yield "target_export"
    if sidecar["head_export"].split("/")[-2:-1] != [name]:
        yield "head_export"


def _selector(path: Path, numbers: Numbers) -> Iterator[str]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    names = {f"candidate_selector.{side}_codebook" for side in ("predecessor", "successor")}
    shape = [numbers["vocab"], numbers["selector_rank"]]
    size = 2 * shape[0] * shape[1]
    places = sorted(entry["data_offsets"] for entry in header.values())
    exact = all((entry["dtype"], entry["shape"]) == ("BF16", shape) for entry in header.values())
    if set(header) != names or not exact or places != [[0, size], [size, 2 * size]]:
        yield "selector"
    if len(data) != 8 + length + 2 * size:
        yield "selector's size"
