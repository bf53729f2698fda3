"""The release check of section 7 of the contract, written again from its text: it must agree with our verifier.

It shares no code with the product: standard library alone, and the numbers of the contract as a table, so that the
tiny pair can be judged by the same demands.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCUMENTS = {"README.md", "LICENSE", "NOTICE", "MODIFICATIONS.md", "QWEN_SOURCE.json"}
REQUIRED = {"config.json", "tokenizer.json", "tokenizer_config.json", "embed_tokens_fp16.npy"}
ALLOWED = REQUIRED | {
    *("special_tokens_map.json", "generation_config.json", "chat_template.jinja", "chat_template.json"),
    *("vocab.json", "merges.txt", "tokenizer.model", "added_tokens.json"),
}
TEXTS = {"json", "md", "txt", "yaml", "yml", "toml", "xml", "plist"}
CODEBOOKS = {"candidate_selector.predecessor_codebook", "candidate_selector.successor_codebook"}


class RefusedError(Exception):
    """A demand of section 7 is not met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers that section 7 states for the release."""

    layers: int = 64
    block: int = 8
    rows: int = 8
    prefill: int = 64
    window: int = 2048
    drafter_layers: int = 5
    head_dim: int = 128
    kv_heads: int = 8
    rank: int = 256


def demand(good: object, what: str) -> None:
    if not good:
        raise RefusedError(what)


def check_release(root: Path, numbers: Numbers, *, plain: bool = False, export: bool = True) -> int:
    """Return how many files were compared; raise RefusedError with the first demand that is not met."""
    release = json.loads((root / "release.json").read_bytes())
    folders = check_form(release)
    files = check_inventory(release, folders)
    skipped = ({"drafter"} if plain else set()) | (set() if export else {"export"})
    compared = [entry for entry in files if entry["component"] not in skipped]
    for entry in compared:
        check_bytes(root, entry)
    check_target(root, release, numbers)
    check_closed(root, release, folders, plain=plain)
    if not plain:
        check_pair(root, release, numbers)
    return len(compared)


def canonical(path: Any) -> str:
    demand(isinstance(path, str) and path, "a path is a text")
    demand(not set("\\*?[]") & set(path), f"a character that paths may not hold: {path}")
    demand(all(part not in ("", ".", "..") for part in path.split("/")), f"not canonical: {path}")
    return str(path)


def check_form(release: dict[str, Any]) -> dict[str, str]:
    version = release.get("schema_version")
    demand(type(version) is int and version == 1, "schema_version")
    upstream: Any = release.get("upstream_model")
    demand(isinstance(upstream, dict), "upstream_model")
    demand(
        all(isinstance(upstream.get(k), str) and upstream[k].strip() for k in ("id", "revision")), "upstream_model"
    )
    folders = {"model": canonical(release.get("model_path"))}
    runtimes = release.get("runtimes")
    demand(isinstance(runtimes, dict) and runtimes and set(runtimes) <= {"coreai", "coreml"}, "runtimes")
    for name, runtime in release["runtimes"].items():
        folders[name] = canonical(runtime.get("path"))
        contexts = runtime.get("contexts")
        demand(isinstance(contexts, list) and contexts and len(set(contexts)) == len(contexts), "contexts")
        demand(all(type(n) is int and n > 0 for n in runtime["contexts"]), "contexts")
    if release.get("export_path"):
        folders["export"] = canonical(release["export_path"])
    drafter = release.get("drafter")
    if drafter is not None:
        folders["drafter"] = canonical(drafter.get("path"))
        demand(drafter.get("runtime") == "coreai", "the drafter's runtime")
        for key in ("model", "metadata", "config", "codebooks", "target_export", "head_export"):
            canonical(drafter.get(key))
        demand("/" not in drafter["target_export"] + drafter["head_export"], "export names are single names")
        demand(all(type(n) is int for n in drafter["taps"]) and drafter["taps"], "the drafter's taps")
    for name, folder in folders.items():
        for other, second in folders.items():
            demand(name == other or not f"{folder}/".startswith(f"{second}/"), f"folders {folder} and {second}")
    return folders


def check_inventory(release: dict[str, Any], folders: dict[str, str]) -> list[dict[str, Any]]:
    files = release.get("files")
    demand(isinstance(files, list) and files, "files")
    paths = [canonical(entry.get("path")) for entry in release["files"]]
    demand(len(set(paths)) == len(paths), "a path is listed twice")
    for entry in release["files"]:
        check_entry(entry, folders)
    documents = {entry["path"] for entry in release["files"] if entry["component"] == "documentation"}
    demand(documents == DOCUMENTS, "documents")
    prefix = folders["model"] + "/"
    model = {entry["path"].removeprefix(prefix) for entry in release["files"] if entry["component"] == "model"}
    demand(model >= REQUIRED, "required files of model/")
    demand(model <= ALLOWED, "allowed files of model/")
    return list(release["files"])


def check_entry(entry: dict[str, Any], folders: dict[str, str]) -> None:
    path, component = entry["path"], entry["component"]
    if component != "documentation":
        demand(component in folders, f"component {component}")
        demand(path.startswith(folders[component] + "/"), f"{path} is outside its component")
    demand(type(entry["bytes"]) is int and entry["bytes"] >= 0, f"bytes of {path}")
    digest = entry["sha256"]
    demand(
        isinstance(digest, str) and len(digest) == 64 and set(digest) <= set("0123456789abcdef"), f"sha256 of {path}"
    )
    name = path.split("/")[-1]
    converted = component in ("coreai", "coreml", "export", "drafter") and name not in ("LICENSE", "NOTICE")
    converted = converted and ("." not in name or name.split(".")[-1].lower() not in TEXTS)
    if converted or path == folders["model"] + "/embed_tokens_fp16.npy":
        demand(str(entry.get("modification_notice") or "").strip(), f"modification notice of {path}")


def check_bytes(root: Path, entry: dict[str, Any]) -> None:
    path = root / entry["path"]
    demand(path.is_file() and not path.is_symlink(), f"{entry['path']} is not there")
    data = path.read_bytes()
    demand(len(data) == entry["bytes"], f"size of {entry['path']}")
    demand(hashlib.sha256(data).hexdigest() == entry["sha256"], f"digest of {entry['path']}")


def check_closed(root: Path, release: dict[str, Any], folders: dict[str, str], *, plain: bool) -> None:
    listed = {entry["path"] for entry in release["files"]}
    for component in ("coreai",) if plain else ("coreai", "drafter"):
        if component not in folders:
            continue
        for path in sorted((root / folders[component]).rglob("*")):
            demand(not path.is_symlink(), f"{path} is a link")
            demand(path.is_dir() or path.relative_to(root).as_posix() in listed, f"{path} is not listed")


def check_target(root: Path, release: dict[str, Any], numbers: Numbers) -> None:
    runtime = release["runtimes"]["coreai"]
    folder = root / runtime["path"]
    manifest = json.loads((folder / "manifest.json").read_bytes())
    demand(sorted(manifest["ctxs"]) == sorted(runtime["contexts"]), "contexts of manifest and release")
    demand(manifest["T"] == numbers.block, "T of the manifest")
    following = 0
    for chunk in manifest["chunks"]:
        first, last = chunk["layers"]
        demand(first == following and last >= first, "chunks are ordered and contiguous")
        following = last + 1
        entries = {f"v{numbers.block}_{context // 1024}k" for context in runtime["contexts"]}
        demand(entries <= set(chunk["entries"]), "entries of a chunk")
    demand(following == numbers.layers, "chunks cover all layers")
    listed = {entry["path"] for entry in release["files"]}
    for package in [*manifest["chunks"], manifest["head"]]:
        for name in filter(None, (package["file"], package.get("compiled"))):
            prefix = f"{runtime['path']}/{canonical(name)}/"
            demand((folder / name).exists(), f"package {name}")
            demand(any(path.startswith(prefix) for path in listed), f"package {name} is not listed")


def check_pair(root: Path, release: dict[str, Any], numbers: Numbers) -> None:
    drafter = release.get("drafter")
    demand(drafter, "a release pairs a target with a drafter")
    folder = root / release["drafter"]["path"]
    sidecar = json.loads((folder / release["drafter"]["metadata"]).read_bytes())
    config = json.loads((folder / release["drafter"]["config"]).read_bytes())
    target = json.loads((root / release["model_path"] / "config.json").read_bytes())["text_config"]
    manifest = json.loads((root / release["runtimes"]["coreai"]["path"] / "manifest.json").read_bytes())
    for what, good in pair_demands(release["drafter"], sidecar, config, target, manifest, numbers):
        demand(good, what)
    check_selector(folder / release["drafter"]["codebooks"], config["vocab_size"], numbers.rank)
    demand((folder / release["drafter"]["model"]).is_dir(), "the drafter's package")


def pair_demands(
    drafter: dict[str, Any],
    sidecar: dict[str, Any],
    config: dict[str, Any],
    target: dict[str, Any],
    manifest: dict[str, Any],
    numbers: Numbers,
) -> Iterator[tuple[str, bool]]:
    inner, export = config["dflash_config"], manifest["export"].split("/")[-1]
    yield "taps", drafter["taps"] == inner["target_layer_ids"] == manifest["taps"]
    yield "block_size", inner["block_size"] == numbers.block
    yield "num_target_layers", config["num_target_layers"] == numbers.layers == target["num_hidden_layers"]
    yield "hidden_size", config["hidden_size"] == target["hidden_size"]
    yield "vocab_size", config["vocab_size"] == target["vocab_size"]
    stated = (sidecar["T"], sidecar["R"], sidecar["RP"], sidecar["W"])
    yield "T, R, RP, W", stated == (numbers.block, numbers.rows, numbers.prefill, numbers.window)
    yield "sliding_window", config["sliding_window"] == numbers.window
    yield "num_hidden_layers", config["num_hidden_layers"] == numbers.drafter_layers
    yield "head_dim", config["head_dim"] == numbers.head_dim
    yield "num_key_value_heads", config["num_key_value_heads"] == numbers.kv_heads
    names = (sidecar["target_export"].split("/")[-1], sidecar["head_export"].split("/")[-2])
    yield "export names", export == names[0] == names[1] == drafter["target_export"] == drafter["head_export"]
    yield "selector_rank", inner["selector_rank"] == numbers.rank
    entries = sidecar["entries"]
    yield "entries", {"draft", "ctx64"} <= set(entries) and "logits" in entries["draft"]["outputs"]


def check_selector(path: Path, vocab: int, rank: int) -> None:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = {k: v for k, v in json.loads(data[8 : 8 + length]).items() if k != "__metadata__"}
    demand(set(header) == CODEBOOKS, "tensors of the selector")
    spans = sorted(info["data_offsets"] for info in header.values())
    demand(all(info["shape"] == [vocab, rank] for info in header.values()), "shapes of the selector")
    demand(spans[0][0] == 0 and spans[0][1] == spans[1][0], "offsets of the selector")
    demand(len(data) == 8 + length + spans[1][1], "length of the selector")
