"""Which rules of the verifier judge the place of a difference: what they would say if the right side stood there.

One table, from file and place to rules, in the order of the contract; the first row that fits a difference gives its
rules. A test holds it against the verifier: every spoiled pair must be refused by a rule that its difference names.
"""

from __future__ import annotations

import re
from dataclasses import replace

from forgepack.release.diff_values import Difference
from forgepack.verify.rule import owner_of

_TAPS = ("TAP002", "TAP003", "TAP004", "TAP005", "TAP006", "TAP007", "TAP008")
# What happened to a list of taps -> the rules that tell it.
_TAP_RULES = {
    "type": ("TAP001",),
    "values": ("TAP002", "TAP007"),
    "shifted": ("TAP003",),
    "order": ("TAP004",),
    "duplicate": ("TAP005",),
    "negative": ("TAP006",),
    "range": ("TAP007",),
    "count": ("TAP008",),
}
_NO_RULE = r"creationDate"

# (file, place, rules); patterns are matched against the whole text.
_PACKAGE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r".*metadata\.json", _NO_RULE, ()),
    (r".*main\.mlirb", r"head\..*", ("HEAD003", "WGT015", "WGT011", "PKG014")),
    (r".*main\.mlirb", r"mask_row", ("WGT016", "WGT011", "PKG014")),
    (r".*main\.mlirb", r"layers\.0\.input_layernorm", ("NUM003", "WGT013", "WGT011", "PKG014")),
    (r".*main\.mlirb", r".*\.(idx|lut|scale|int8)", ("WGT012", "WGT011", "PKG014")),
    (r".*main\.mlirb", r".*(norm|base_kernel.*|hidden_projection)", ("WGT013", "WGT011", "PKG014")),
    (r".*main\.mlirb", r"zeros\..*", ("WGT014", "WGT011", "PKG014")),
    (r".*main\.mlirb", r".+: (inputs|outputs).*", ("PKG018", "PKG021")),
    (r".*main\.mlirb", r".+", ("PKG019", "PKG021", "PKG014")),
    (r".*main\.mlirb", r"", ("PKG012", "PKG014", "PKG015", "PKG017")),
    (r".*main\.hash", r"", ("PKG012", "PKG004", "PKG014")),
    (r".*metadata\.json", r"license", ("LIC005", "PKG014")),
    (r".*metadata\.json", r"assetVersion", ("PKG005", "PKG014")),
    (r".*metadata\.json", r".*", ("PKG014", "PKG015", "HEAD003")),
    (r"LICENSE", r".*", ("LIC004", "LIC001", "LIC003", "PKG014")),
    (r"NOTICE", r".*", ("LIC004", "LIC002", "PKG014")),
    (r"DFLASH2_SOURCE\.json", r"checkpoint\.files.*", ("SRC022", "PKG014")),
    (r"DFLASH2_SOURCE\.json", r".*", ("SRC021", "SRC001", "PKG014")),
    (r"selector\.safetensors", r".*", ("WGT020", "PKG014")),
)
# The sidecar as a whole is bound by a digest, and the runtime demands every key of its type.
_KEYS = ("CTR002", "PKG022")
_BOUND = ("CTR001", "PKG022", "CTR030")
_SIDECAR: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"mask_scale", ("NUM001", *_KEYS)),
    (r"resid_scale|feat_scale|lut_f.*", ("NUM002", *_KEYS)),
    (r"W|T|R|RP", ("CTR003", *_KEYS)),
    (r"target_export|head_export", ("CTR004", *_KEYS)),
    (r"entries.*", ("PKG009", *_KEYS)),
    (r"mb", ("PKG016", *_KEYS)),
    (r"forgepack", ("CTR001", *_BOUND)),
    (r"forgepack\.schema", ("CTR007", *_BOUND)),
    (r"forgepack\.profile.*", ("CTR008", *_BOUND)),
    (r"forgepack\.runtime.*", ("CTR009", *_BOUND)),
    (r"forgepack\.target\.taps.*", ("TAP009", *_TAPS, *_BOUND)),
    (r"forgepack\.target\.head_package", ("HEAD004", *_BOUND)),
    (r"forgepack\.target\.head\.(sha256|bytes|file)", ("HEAD008", "HEAD007", *_BOUND)),
    (r"forgepack\.target\.head\.header_sha256", ("HEAD007", *_BOUND)),
    (r"forgepack\.target\.head\.tensors.*", ("HEAD010", *_BOUND)),
    (r"forgepack\.target\.head.*", ("HEAD009", "HEAD010", *_BOUND)),
    (r"forgepack\.target\.tokenizer\.semantic_sha256", ("TOK001", *_BOUND)),
    (r"forgepack\.target\.tokenizer\.sha256", ("TOK002", *_BOUND)),
    (r"forgepack\.target\.tokenizer\.template_sha256", ("TOK003", *_BOUND)),
    (r"forgepack\.target\.tokenizer\.settings_sha256", ("TOK004", *_BOUND)),
    (r"forgepack\.target\.embedding.*", ("WGT017", *_BOUND)),
    (r"forgepack\.target\.mask_row.*", ("WGT018", *_BOUND)),
    (r"forgepack\.target\.manifest\.sha256", ("CTR021", *_BOUND)),
    (r"forgepack\.target\.manifest.*", ("CTR020", *_BOUND)),
    (r"forgepack\.target\.config_sha256", ("CTR022", *_BOUND)),
    (r"forgepack\.target\.files.*", ("CTR023", *_BOUND)),
    (r"forgepack\.target\.basis.*", ("CTR025", *_BOUND)),
    (r"forgepack\.target\.export", ("CTR004", *_BOUND)),
    (r"forgepack\.checkpoint\.(repo|commit)", ("SRC016", "SRC021", *_BOUND)),
    (r"forgepack\.checkpoint\.config_sha256", ("SRC017", *_BOUND)),
    (r"forgepack\.checkpoint\.model_sha256", ("SRC018", "SRC001", *_BOUND)),
    (r"forgepack\.checkpoint.*", ("SRC018", "SRC021", *_BOUND)),
    (r"forgepack\.quantization\.mask_scale.*", ("NUM007", *_BOUND)),
    (r"forgepack\.quantization\.(drafter_quant|report)_sha256", ("SRC019", *_BOUND)),
    (r"forgepack\.quantization.*", ("SRC020", "SRC019", *_BOUND)),
    (r"forgepack\.package\.files.*", ("PKG014", *_BOUND)),
    (r"forgepack\.package\.asset", ("PKG015", *_BOUND)),
    (r"forgepack\.package\.trace_sha256", ("PKG021", *_BOUND)),
    (r"forgepack\.package\.constants.*", ("WGT011", *_BOUND)),
    (r".*", ("CTR030", *_KEYS)),
)
_CONFIG: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"dflash_config\.target_layer_ids", ("TAP001", *_TAPS)),
    (r"dflash_config\.mask_token_id", ("VOC003",)),
    (r"vocab_size", ("VOC001",)),
    (r"dtype|torch_dtype", ("WGT005",)),
    (r"(output_multiplier|.*softcapping|logit_scale|input_embedding_scale|rope_scaling).*", ("CTR011",)),
    (r"rope_.*", ("CTR010", "CTR011", "CTR012")),
    (r".*", ("CTR010", "CTR011", "CTR012")),
)
_QUANT: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"report\.json", r"method|recipe.*|profile.*", ("SRC012", "SRC010")),
    (r"report\.json", r"inputs\.checkpoint.*", ("SRC013", "SRC010")),
    (r"report\.json", r"inputs\.target.*", ("SRC014", "SRC010")),
    (r"report\.json", r"inputs\.(calibration|held_out).*", ("SRC019", "SRC015", "SRC010")),
    (r"report\.json", r"output.*", ("SRC011", "SRC019", "SRC010")),
    (r"report\.json", r".*", ("SRC010", "SRC019")),
    (r"drafter_quant\.safetensors", r"__metadata__\.method", ("PKG006", "SRC011", "SRC019")),
    (r"drafter_quant\.safetensors", r".*", ("SRC011", "SRC019", "WGT012")),
)
_CHECKPOINT: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"checkpoint\.lock\.json", r"repo|commit", ("SRC003", "SRC002", "SRC018")),
    (r"checkpoint\.lock\.json", r"adopted", ("SRC007", "SRC018")),
    (r"checkpoint\.lock\.json", r"files.*", ("SRC004", "SRC005", "SRC018", "SRC001", "SRC002")),
    (r"checkpoint\.lock\.json", r".*", ("SRC002", "SRC018")),
    (r"model\.safetensors", r"candidate_selector\..*codebook", ("SRC005", "WGT020")),
    (r"model\.safetensors", r".*", ("SRC005", "SRC004", "SRC008", "WGT013")),
    (r"LICENSE|NOTICE", r".*", ("SRC005", "LIC004")),
)
_TARGET: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"model/config\.json", r".*vocab_size", ("VOC001", "CTR022", "CTR012", "CTR017")),
    (r"model/config\.json", r".*eos_token_id", ("VOC005", "CTR022", "CTR012", "CTR017")),
    (r"model/config\.json", r".*(hidden_size|num_hidden_layers)", ("CTR013", "CTR022", "CTR012", "CTR017")),
    (r"model/config\.json", r".*", ("CTR022", "CTR017", "CTR012")),
    (r"model/tokenizer\.json", r".*", ("TOK001", "TOK005", "TOK002", "VOC002", "VOC004")),
    (r"model/tokenizer_config\.json", r"chat_template.*", ("TOK003",)),
    (r"model/tokenizer_config\.json", r".*", ("TOK004",)),
    (r"model/embed_tokens_fp16\.npy", r".*", ("WGT017", "WGT018", "WGT016")),
    (r"coreai/manifest\.json", r"taps", ("TAP001", *_TAPS, "CTR020", "CTR016")),
    (r"coreai/manifest\.json", r"chunks.*taps", ("TAP010", "CTR020")),
    (r"coreai/manifest\.json", r"export", ("CTR004", "CTR005", "CTR020")),
    (r"coreai/manifest\.json", r"rot1_basis.*", ("CTR025", "CTR020")),
    (r"coreai/manifest\.json", r"(T|ctxs|kv_len.*)", ("CTR014", "CTR020")),
    (r"coreai/manifest\.json", r"chunks.*", ("CTR015", "CTR020", "CTR016")),
    (r"coreai/manifest\.json", r".+", ("CTR020", "CTR016")),
    (r"coreai/manifest\.json", r"", ("CTR021",)),
    (r"coreai/head.*", r".*", ("HEAD005", "HEAD004", "CTR023", "PKG013")),
    (r"coreai/.*metadata\.json", _NO_RULE, ()),
    (r"coreai/.*", r".*", ("CTR023", "PKG013", "PKG020", "TAP011")),
    (r"(export/[^/]+/)?lm_head\.safetensors", r".*", ("HEAD008", "HEAD003", "HEAD005", "HEAD010", "HEAD007")),
    (r"export/.*", r".*", ("CTR023",)),
    (r"LICENSE", r".*", ("LIC006",)),
)
# Single files and parts of a target: the table that judges them, and their name in it, or the folder they lie in.
_SINGLE = {
    "quant-report": (_QUANT, "report.json"),
    "checkpoint-lock": (_CHECKPOINT, "checkpoint.lock.json"),
    "tokenizer": (_TARGET, "model/tokenizer.json"),
    "manifest": (_TARGET, "coreai/manifest.json"),
    "source-record": (_PACKAGE, "DFLASH2_SOURCE.json"),
    "build": (_TARGET, "coreai/"),
    "export": (_TARGET, "export/it/"),
    "model": (_TARGET, "model/"),
}
_COREML = ("mlpackage", "mlmodelc", "mlmodel", "coreml-sidecar")


# What stands in place of a file -> the rule that tells it.
_KIND_RULES = {
    **dict.fromkeys(("mlpackage", "mlmodelc", "mlmodel", "coreml-sidecar"), ("PKG006",)),
    "lfs-pointer": ("FMT010",),
    **dict.fromkeys(("html", "xml", "zip", "npz", "pickle", "gguf", "gzip", "npy"), ("FMT011",)),
    "empty": ("FMT012", "FMT011"),
    **dict.fromkeys(("json", "damaged-json", "text"), ("FMT001",)),
}
# A part of a package or target that is of another kind, or is there beside what belongs: by its name.
_EXTRA = (
    (r".*\.(mlpackage|mlmodelc|mlmodel)(/.*)?", ("PKG006",)),
    (r"[^/]*\.aimodel[cx](/.*)?", ("PKG003", "PKG010")),
    (r"[^/]*\.aimodel", ("PKG008", "PKG007")),
    (r"[^/]*\.aimodel/.*", ("PKG011",)),
    (r"(coreai|export)/.*basis.*", ("CTR025", "CTR024")),
    (r"(coreai|export)/.*", ("CTR024", "CTR005")),
    (r".*", ("PKG010",)),
)


def with_rules(difference: Difference, kind: str) -> Difference:
    """Return a difference with the rules that judge its place in a thing of a kind."""
    rules = rules_for(difference, kind)
    if difference.kind == "taps" and difference.detail in _TAP_RULES:
        told = _TAP_RULES[difference.detail]
        rules = (*told, *(rule for rule in rules if rule not in ("TAP001", *_TAPS)))
    return replace(difference, rules=rules)


def rules_for(difference: Difference, kind: str) -> tuple[str, ...]:
    """Return the rules that judge the place of a difference; none where no rule looks."""
    file = difference.file
    if kind == "bundle":
        kind, file = _inner(file)
    found = _by_place(kind, file, difference.place)
    if difference.kind == "kind":
        return (*_KIND_RULES.get(difference.right, ()), *found)
    if difference.kind == "unread":
        return (owner_of(difference.detail), *found)
    if difference.kind == "file":
        return _file_rules(difference, kind, file, found)
    if difference.kind == "tensor":
        return (*_tensor_rules(difference, file), *found)
    return found


def _by_place(kind: str, file: str, place: str) -> tuple[str, ...]:
    if kind in _COREML:
        return ("PKG006",)
    if kind in ("asset", "drafter-package"):
        return _package_rules(file, place)
    if kind == "checkpoint" and file == "config.json":
        return (*_first(_CONFIG, place), "SRC005", "SRC006") if place else ("SRC005", "SRC006")
    tables = {"quant": _QUANT, "checkpoint": _CHECKPOINT, "target": _TARGET}
    if kind in tables:
        return _match(tables[kind], file, place)
    if kind in _SINGLE:
        table, prefix = _SINGLE[kind]
        return _match(table, prefix + file if prefix.endswith("/") else prefix, place)
    return _first({"sidecar": _SIDECAR, "drafter-config": _CONFIG}.get(kind, ()), place)


def _package_rules(file: str, place: str) -> tuple[str, ...]:
    if file == "config.json":
        return (*_first(_CONFIG, place), "SRC006", "SRC017", "PKG014") if place else ("SRC006", "SRC017", "PKG014")
    known = _match(_PACKAGE, file, place)
    if known or place == _NO_RULE:
        return known
    return _first(_SIDECAR, place) if file.endswith(".json") and place else ("PKG014", "PKG022")


def _file_rules(difference: Difference, kind: str, file: str, found: tuple[str, ...]) -> tuple[str, ...]:
    """Return the rules for a file that one side lacks, or that is a file on one side and a folder on the other."""
    if difference.right == "nothing":
        licence = {"LICENSE": "LIC001", "NOTICE": "LIC002"}.get(file)
        moved = ("CTR005",) if file.startswith("export/") else ()
        return (licence or "PKG001", *found, *moved)
    if difference.left == "nothing":
        extra = ("SRC010",) if kind == "quant" else _first(_EXTRA, file)
        return (*extra, *(rule for rule in found if rule not in extra)) if extra[:1] == ("CTR024",) else extra
    if difference.right.startswith("a link"):
        return ("PATH002",)
    return ("PKG002", *found) if difference.left == "a folder" else ("PATH003", *found)


def _tensor_rules(difference: Difference, file: str) -> tuple[str, ...]:
    head = ("HEAD001",) if "lm_head" in file else ()
    if difference.right == "nothing":
        return (*head, "WGT001")
    return (*head, "WGT002") if difference.left == "nothing" else (*head, "WGT003", "WGT004")


def _inner(file: str) -> tuple[str, str]:
    """Return (kind, file in it) of a bundle's file."""
    head, _, rest = file.partition("/")
    return ("drafter-package", rest) if head == "drafter" and rest else ("target", file)


def _first(table: tuple[tuple[str, tuple[str, ...]], ...], place: str) -> tuple[str, ...]:
    return next((rules for pattern, rules in table if re.fullmatch(pattern, place)), ())


def _match(table: tuple[tuple[str, str, tuple[str, ...]], ...], file: str, place: str) -> tuple[str, ...]:
    return next((rules for one, two, rules in table if re.fullmatch(one, file) and re.fullmatch(two, place)), ())
