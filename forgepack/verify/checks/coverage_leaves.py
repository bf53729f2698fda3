"""What covers each leaf of every JSON document of a release, checkpoint and quantization: a table, read as data.

A document is named by its POSIX path in a release, or below ``checkpoint/`` and ``quant/``; a leaf by its path, with
``[]`` for a place in a list. The first line whose two patterns match counts. A leaf is checked by rules, or it is not
and has a reason. Of the latter those that may matter are named in every report (rule CTR090); ``harmless`` ones are
not. A leaf that no line matches is named, too. Tests walk the miniature's documents: no leaf without a line, no line
without a leaf, and each rule refuses its leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

from forgepack.artifacts.config import INERT, NEUTRAL

SIDECAR = r"drafter/(?!config\.json$|DFLASH2_SOURCE\.json$)[^/]+\.json"
CONFIG = r"drafter/config\.json"
SOURCE = r"drafter/DFLASH2_SOURCE\.json"
ASSET = r"drafter/[^/]+\.aimodel/metadata\.json"
PACKAGES = r"coreai/.+\.aimodel/metadata\.json"
MANIFEST = r"coreai/manifest\.json"
TARGET_CONFIG = r"model/config\.json"
REPORT = r"quant/report\.json"
LOCK = r"checkpoint/checkpoint\.lock\.json"
RELEASE = r"release\.json"
RECORD = r"forgepack\.json"
UPSTREAM = r"QWEN_SOURCE\.json"

_INVENTORY = "release.json: files[].sha256"
_MANIFEST = "sidecar: forgepack.target.manifest.content_sha256"
_TARGET_CONFIG = "sidecar: forgepack.target.config_sha256"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One line: which leaves of which documents, the rules that check them, and what binds them beside that.

    ``reason`` says why no rule checks the value, or, beside rules, what of it they leave open. ``harmless`` leaves
    mean nothing for the pair.
    """

    document: str
    path: str
    judged: tuple[str, ...] = ()
    bound: str = ""
    reason: str = ""
    harmless: bool = False

    @property
    def told(self) -> bool:
        """Whether reports name it as not checked."""
        return not self.judged and not self.harmless


def _line(document: str, path: str, *judged: str, bound: str = "", reason: str = "") -> Leaf:
    return Leaf(document=document, path=path, judged=judged, bound=bound, reason=reason)


def _any(*names: str) -> str:
    return f"({'|'.join(names)})"


_SIDECAR = (
    _line(SIDECAR, _any("W", "T", "R", "RP"), "CTR003", "PKG022"),
    _line(SIDECAR, r"(resid_scale|feat_scale|lut_f\..+)", "NUM002", "PKG022"),
    _line(SIDECAR, "mask_scale", "NUM001", "PKG022"),
    _line(SIDECAR, _any("target_export", "head_export"), "CTR004", "PKG022"),
    _line(SIDECAR, "export", "PKG022"),
    _line(SIDECAR, "mb", "PKG016"),
    _line(SIDECAR, r"entries\..+", "PKG009", "PKG022"),
    _line(SIDECAR, r"forgepack\.schema", "CTR007", "PKG022"),
    _line(SIDECAR, r"forgepack\.tool\..+", "PKG022"),
    _line(SIDECAR, r"forgepack\.profile\..+", "CTR008", "PKG022"),
    _line(SIDECAR, r"forgepack\.runtime\..+", "CTR009", "PKG022"),
    _line(SIDECAR, r"forgepack\.checkpoint\..+", "SRC018", "PKG022"),
    _line(SIDECAR, r"forgepack\.quantization\..+", "SRC019", "PKG022"),
    _line(SIDECAR, r"forgepack\.package\.asset", "PKG015"),
    _line(SIDECAR, r"forgepack\.package\.files\..+", "PKG014"),
    _line(SIDECAR, r"forgepack\.package\.constants\..+", "WGT011"),
    _line(SIDECAR, r"forgepack\.package\.narrowed.*", "NUM010", "PKG022"),
    _line(SIDECAR, r"forgepack\.package\.(minimum_os|trace_sha256)", "PKG021"),
    _line(SIDECAR, r"forgepack\.target\.head\..+", "HEAD007", "HEAD008", "HEAD009", "HEAD010", "PKG022"),
    _line(SIDECAR, r"forgepack\.target\.embedding\..+", "WGT017", "PKG022"),
    _line(SIDECAR, r"forgepack\.target\.mask_row\..+", "WGT018", "PKG022"),
    _line(SIDECAR, r"forgepack\.target\.taps\..+", "TAP002", "TAP009", "PKG022"),
    _line(SIDECAR, r"forgepack\.target\.(tokenizer|token_ids)\..+", "TOK007", "TOK002", "TOK003", "TOK004", "PKG022"),
    _line(SIDECAR, r"forgepack\.target\.basis.*", "CTR025", "PKG022"),
    _line(SIDECAR, r"forgepack\.target\.files\..+", "CTR023", "PKG022"),
    _line(SIDECAR, r"forgepack\.target\..+", "CTR020", "CTR021", "CTR022", "CTR023", "PKG022"),
)
_SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("head_dim", "num_target_layers", "sliding_window", "rms_norm_eps"),
)
_BLOCK = ("block_size", "conv_group_size", "conv_kernel_size", "selector_rank", "selector_top_k")
# Those of NEUTRAL that a drafter's config of this family states; the others are checked alike where they stand.
_DTYPES = ("dtype", "torch_dtype")
_CONFIG = (
    _line(CONFIG, r"(architectures|layer_types)\[\]", "CTR010"),
    _line(CONFIG, _any(*_SIZES), "CTR010"),
    _line(CONFIG, rf"dflash_config\.{_any(*_BLOCK)}", "CTR010"),
    _line(CONFIG, r"dflash_config\.mask_token_id", "VOC003"),
    _line(CONFIG, r"dflash_config\.target_layer_ids\[\]", *(f"TAP00{n}" for n in range(1, 9))),
    _line(CONFIG, "vocab_size", "VOC001"),
    _line(CONFIG, r"eos_token_id(\[\])?", "VOC010", reason="which of the profile's end tokens is not checked"),
    _line(CONFIG, r"(rope_parameters\.)?rope_theta", "CTR010", "CTR012"),
    _line(CONFIG, _any(*_DTYPES), "WGT005"),
    _line(CONFIG, _any(r"rope_parameters\.rope_type", *(key for key in NEUTRAL if key not in _DTYPES)), "CTR011"),
    Leaf(document=CONFIG, path=_any(*INERT), bound="sidecar: forgepack.checkpoint.config_sha256",
         reason="says nothing about the maths; artifacts/config.py gives the reason of each", harmless=True),
    _line(r"checkpoint/config\.json", r".+", "SRC006", "SRC005"),
)  # fmt: skip
_CHUNK = r"(chunks\[\]\.|head\.)?"
_MANIFEST_LINES = (
    _line(MANIFEST, "version", "CTR086", "CTR091"),
    _line(MANIFEST, "T", "CTR014"),
    _line(MANIFEST, "TP", "CTR086", "CTR087", "CTR089"),
    _line(MANIFEST, "pend", "CTR086", "CTR087"),
    _line(MANIFEST, r"taps\[\]", *(f"TAP00{n}" for n in range(1, 9))),
    _line(MANIFEST, r"ctxs\[\]", "CTR014", "CTR015", "CTR087"),
    _line(MANIFEST, r"pctxs(\[\])?", "CTR086", "CTR087", "CTR089"),
    _line(MANIFEST, r"kv_len(\.[^.]+)?", "CTR086", "CTR087", bound=_MANIFEST,
          reason="at most the context; how many rows fewer is the runtime's own"),
    _line(MANIFEST, "export", "CTR004", "CTR005"),
    _line(MANIFEST, r"(chunks\[\]|head)\.file", "PKG001"),
    _line(MANIFEST, r"chunks\[\]\.layers\[\]", "CTR015"),
    _line(MANIFEST, r"chunks\[\]\.entries\[\]", "CTR015", "CTR087", "CTR089"),
    _line(MANIFEST, r"chunks\[\]\.taps(\[\])?", "TAP010"),
    _line(MANIFEST, r"chunks\[\]\.outputs\[\]", "TAP023", bound=_MANIFEST, reason="outputs other than taps"),
    _line(MANIFEST, r"(chunks\[\]\.)?entries_by_soc\..+", "CTR086", "CTR087"),
    _line(MANIFEST, r"derived\..+", "CTR086", "CTR088", bound=_MANIFEST, reason="which chip and folder"),
    _line(MANIFEST, rf"{_CHUNK}compiled", "CTR086", bound=_MANIFEST,
          reason="its path alone: nothing proves that it was compiled from the package beside it"),
    _line(MANIFEST, r"rot1_basis.*", "CTR025", "CTR026"),
    _line(MANIFEST, r"kv_cache(\..+)?", bound=_MANIFEST, reason="the cache's form is the runtime's own"),
    _line(MANIFEST, rf"{_CHUNK}numerics\..+", bound=_MANIFEST, reason="switches of the runtime's own kernels"),
    _line(MANIFEST, rf"{_CHUNK}(gdn_j|att_j|mb|release|entries_by_kv)\b.*", bound=_MANIFEST,
          reason="counters and labels of the build, whose forms are not known"),
)  # fmt: skip
_INNER = r"(text_config\.)?"
_TARGET = (
    _line(TARGET_CONFIG, rf"{_INNER}(hidden_size|num_hidden_layers)", "CTR013", "CTR012"),
    _line(TARGET_CONFIG, rf"{_INNER}vocab_size", "VOC001", "CTR012"),
    _line(TARGET_CONFIG, rf"{_INNER}eos_token_id(\[\])?", "VOC005", "CTR022",
          reason="which of the profile's end tokens is not checked"),
    Leaf(document=TARGET_CONFIG, path=rf"{_INNER}(architectures\[\]|model_type|transformers_version)",
         bound=_TARGET_CONFIG, reason="names a library's class; no part of a release is loaded by it", harmless=True),
    _line(TARGET_CONFIG, r".+", bound=_TARGET_CONFIG,
          reason="the target's own build computes with it, nothing else does; what is stated twice must agree"),
    Leaf(document=PACKAGES, path="creationDate", reason="saving an asset stamps the date", harmless=True),
    _line(PACKAGES, "assetVersion", "PKG005"),
    _line(PACKAGES, r".+", "CTR023"),
    _line(r"model/tokenizer\.json", r".+", "TOK001", "TOK002", "TOK005", "TOK007", "VOC002", "VOC004"),
    _line(r"model/tokenizer_config\.json", r"chat_template\b.*", "TOK003"),
    _line(r"model/tokenizer_config\.json", r".+", "TOK004"),
)  # fmt: skip
_SOURCES = (
    _line(SOURCE, r".+", "SRC021", "SRC022"),
    Leaf(document=ASSET, path="creationDate", reason="saving an asset stamps the date", harmless=True),
    _line(ASSET, "assetVersion", "PKG005"),
    _line(ASSET, r".+", "PKG014", "PKG015", "PKG022"),
    _line(LOCK, "schema", "SRC002"),
    _line(LOCK, "adopted", "SRC007", "SRC018", "SRC002"),
    _line(LOCK, r".+", "SRC002", "SRC003", "SRC004", "SRC005", "SRC018"),
    _line(REPORT, r"output\..+", "SRC011", "SRC019"),
    _line(REPORT, r".+", "SRC010", "SRC012", "SRC019"),
)
_BUNDLE = (
    _line(RELEASE, "schema_version", "CTR040"),
    _line(RELEASE, r"upstream_model\..+", "CTR052", "CTR092"),
    _line(RELEASE, r"(model_path|export_path)", "CTR041", "CTR044"),
    _line(RELEASE, r"runtimes\..+", "CTR040", "CTR041", "CTR049"),
    _line(RELEASE, r"drafter\..+", "CTR040", "CTR041", "CTR048"),
    _line(RELEASE, r"files\[\]\.(path|component)", "CTR040", "CTR041", "CTR042", "CTR045", "CTR047"),
    _line(RELEASE, r"files\[\]\.(bytes|sha256)", "CTR046", "CTR047"),
    _line(
        RELEASE, r"files\[\]\.modification_notice", "CTR043", "CTR052", reason="that it is there, not what it says"
    ),
    Leaf(document=RECORD, path=r"(about|tool\..+)", bound="SHA256SUMS", reason="names its writer", harmless=True),
    _line(RECORD, r".+", "CTR052"),
    _line(UPSTREAM, r".+", "CTR092"),
)

LEAVES: tuple[Leaf, ...] = (*_SIDECAR, *_CONFIG, *_MANIFEST_LINES, *_TARGET, *_SOURCES, *_BUNDLE)
