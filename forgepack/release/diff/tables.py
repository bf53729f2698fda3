"""Places in a package, its sources, a target and a release, and the rules of the verifier that judge each.

Rows are (pattern of the file, pattern of the place in it, rules) or (pattern of the place, rules); patterns are
matched against the whole text, and the first row that fits counts.
"""

from __future__ import annotations

Rows = tuple[tuple[str, str, tuple[str, ...]], ...]
Places = tuple[tuple[str, tuple[str, ...]], ...]

TAPS = ("TAP002", "TAP003", "TAP004", "TAP005", "TAP006", "TAP007", "TAP008")
# What happened to a list of taps -> the rules that tell it.
TAP_RULES: dict[str, tuple[str, ...]] = {
    "type": ("TAP001",),
    "values": ("TAP002", "TAP007"),
    "shifted": ("TAP003",),
    "order": ("TAP004",),
    "duplicate": ("TAP005",),
    "negative": ("TAP006",),
    "range": ("TAP007",),
    "count": ("TAP008",),
}
NO_RULE = r"creationDate"

PACKAGE: Rows = (
    (r".*metadata\.json", NO_RULE, ()),
    (r".*main\.mlirb", r"head\..*", ("HEAD003", "WGT015", "WGT011", "PKG014")),
    (r".*main\.mlirb", r"mask_row", ("WGT016", "WGT011", "PKG014")),
    (r".*main\.mlirb", r"layers\.0\.input_layernorm", ("NUM003", "WGT013", "WGT011", "PKG014")),
    (r".*main\.mlirb", r".*\.(idx|lut|scale|int8)", ("WGT012", "WGT011", "PKG014")),
    (r".*main\.mlirb", r".*(norm|base_kernel.*|hidden_projection)", ("WGT013", "WGT011", "PKG014")),
    (r".*main\.mlirb", r"zeros\..*", ("WGT014", "WGT011", "PKG014")),
    (r".*main\.mlirb", r".+: (inputs|outputs).*", ("PKG018", "PKG030", "PKG021")),
    (r".*main\.mlirb", r".+", ("PKG019", "PKG030", "PKG031", "PKG021", "PKG014")),
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
SIDECAR: Places = (
    (r"mask_scale", ("NUM001", *_KEYS)),
    (r"resid_scale|feat_scale|lut_f.*", ("NUM002", *_KEYS)),
    (r"W|T|R|RP", ("CTR003", *_KEYS)),
    (r"target_export|head_export", ("CTR004", *_KEYS)),
    (r"entries.*", ("PKG009", *_KEYS)),
    (r"export", ("SRC030", *_KEYS)),
    (r"mb", ("PKG016", *_KEYS)),
    (r"forgepack", ("CTR001", *_BOUND)),
    (r"forgepack\.schema", ("CTR007", *_BOUND)),
    (r"forgepack\.profile.*", ("CTR008", *_BOUND)),
    (r"forgepack\.runtime.*", ("CTR009", *_BOUND)),
    (r"forgepack\.target\.taps.*", ("TAP009", *TAPS, *_BOUND)),
    (r"forgepack\.target\.head_package", ("HEAD004", *_BOUND)),
    (r"forgepack\.target\.head\.(sha256|bytes|file)", ("HEAD008", "HEAD007", *_BOUND)),
    (r"forgepack\.target\.head\.header_sha256", ("HEAD007", *_BOUND)),
    (r"forgepack\.target\.head\.tensors.*", ("HEAD010", *_BOUND)),
    (r"forgepack\.target\.head.*", ("HEAD009", "HEAD010", *_BOUND)),
    (r"forgepack\.target\.tokenizer\.semantic_sha256", ("TOK001", *_BOUND)),
    (r"forgepack\.target\.token_ids\..*", ("TOK007", *_BOUND)),
    (r"forgepack\.target\.tokenizer\.sha256", ("TOK002", *_BOUND)),
    (r"forgepack\.target\.tokenizer\.template_sha256", ("TOK003", *_BOUND)),
    (r"forgepack\.target\.tokenizer\.settings_sha256", ("TOK004", *_BOUND)),
    (r"forgepack\.target\.embedding.*", ("WGT017", *_BOUND)),
    (r"forgepack\.target\.mask_row.*", ("WGT018", *_BOUND)),
    (r"forgepack\.target\.manifest\.sha256", ("CTR021", *_BOUND)),
    (r"forgepack\.target\.manifest.*", ("CTR020", *_BOUND)),
    (r"forgepack\.target\.config_sha256", ("CTR022", *_BOUND)),
    (r"forgepack\.target\.files.*", ("CTR023", "CTR024", *_BOUND)),
    (r"forgepack\.target\.model_files.*", ("CTR080", *_BOUND)),
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
CONFIG: Places = (
    (r"dflash_config\.target_layer_ids", ("TAP001", *TAPS)),
    (r"dflash_config\.mask_token_id", ("VOC003",)),
    (r"vocab_size", ("VOC001",)),
    (r"dtype|torch_dtype", ("WGT005",)),
    (r"(output_multiplier|.*softcapping|logit_scale|input_embedding_scale|rope_scaling).*", ("CTR011",)),
    (r"rope_.*", ("CTR010", "CTR011", "CTR012")),
    (r".*", ("CTR010", "CTR011", "CTR012")),
)
QUANT: Rows = (
    (r"report\.json", r"method|recipe.*|profile.*", ("SRC012", "SRC010")),
    (r"report\.json", r"inputs\.checkpoint.*", ("SRC013", "SRC010")),
    (r"report\.json", r"inputs\.target.*", ("SRC014", "SRC010")),
    (r"report\.json", r"inputs\.(calibration|held_out).*", ("SRC019", "SRC015", "SRC030", "SRC035", "SRC010")),
    (r"report\.json", r"output.*", ("SRC011", "SRC019", "SRC010")),
    (r"report\.json", r".*", ("SRC010", "SRC019")),
    (r"drafter_quant\.safetensors", r"__metadata__\.method", ("PKG006", "SRC011", "SRC019")),
    (r"drafter_quant\.safetensors", r".*", ("SRC011", "SRC019", "WGT012", "WGT030", "WGT031")),
)
CHECKPOINT: Rows = (
    (r"checkpoint\.lock\.json", r"repo|commit", ("SRC003", "SRC002", "SRC018")),
    (r"checkpoint\.lock\.json", r"adopted", ("SRC007", "SRC018")),
    (r"checkpoint\.lock\.json", r"files.*", ("SRC004", "SRC005", "SRC018", "SRC001", "SRC042", "SRC002")),
    (r"checkpoint\.lock\.json", r".*", ("SRC002", "SRC018")),
    (r"model\.safetensors", r"candidate_selector\..*codebook", ("SRC005", "WGT020")),
    (r"model\.safetensors", r".*", ("SRC005", "SRC004", "SRC008", "WGT013")),
    (r"LICENSE|NOTICE", r".*", ("SRC005", "LIC004")),
)
TARGET: Rows = (
    (r"model/config\.json", r".*vocab_size", ("VOC001", "CTR022", "CTR012", "CTR017")),
    (r"model/config\.json", r".*eos_token_id", ("VOC005", "CTR022", "CTR012", "CTR017")),
    (r"model/config\.json", r".*(hidden_size|num_hidden_layers)", ("CTR013", "CTR022", "CTR012", "CTR017")),
    (r"model/config\.json", r".*", ("CTR022", "CTR017", "CTR012")),
    (r"model/tokenizer\.json", r".*", ("TOK001", "TOK005", "TOK002", "VOC002", "VOC004")),
    (r"model/tokenizer_config\.json", r"chat_template.*", ("TOK003",)),
    (r"model/tokenizer_config\.json", r".*", ("TOK004",)),
    (r"model/generation_config\.json", r".*", ("TOK024", "TOK020", "CTR080")),
    (r"model/(added_tokens|special_tokens_map|vocab)\.json", r".*", ("TOK020", "TOK021", "CTR080")),
    (r"model/merges\.txt", r".*", ("TOK022", "TOK020", "CTR080")),
    (r"model/chat_template.*", r".*", ("TOK003", "TOK023")),
    (r"model/tokenizer\.model", r".*", ("CTR080",)),
    (r"model/embed_tokens_fp16\.npy", r".*", ("WGT017", "WGT018", "WGT016")),
    (r"coreai/manifest\.json", r"taps", ("TAP001", *TAPS, "CTR020", "CTR016")),
    (r"coreai/manifest\.json", r"chunks.*taps", ("TAP010", "CTR086", "CTR020")),
    (r"coreai/manifest\.json", r"chunks.*outputs.*", ("TAP023", "CTR086", "CTR020")),
    (r"coreai/manifest\.json", r"export", ("CTR004", "CTR005", "CTR020")),
    (r"coreai/manifest\.json", r"rot1_basis.*", ("CTR025", "CTR020")),
    (r"coreai/manifest\.json", r"(T|ctxs|kv_len.*)", ("CTR014", "CTR086", "CTR087", "CTR020", "CTR016")),
    (r"coreai/manifest\.json", r"chunks.*", ("CTR015", "CTR086", "CTR087", "CTR020", "CTR016")),
    (r"coreai/manifest\.json", r".+", ("CTR020", "CTR086", "CTR087", "CTR089", "CTR091", "CTR088", "CTR016")),
    (r"coreai/manifest\.json", r"", ("CTR021",)),
    (r"coreai/head.*", r".*", ("HEAD005", "HEAD004", "HEAD020", "HEAD021", "HEAD022", "PKG031", "CTR023", "PKG013")),
    (r"coreai/.*metadata\.json", NO_RULE, ()),
    (r"coreai/.*", r".*", ("CTR023", "PKG013", "PKG020", "PKG043", "TAP011", "TAP020", "TAP021", "TAP022")),
    (r"(export/[^/]+/)?lm_head\.safetensors", r".*", ("HEAD008", "HEAD003", "HEAD005", "HEAD010", "HEAD007")),
    (r"export/.*", r".*", ("CTR023", "PKG038", "PKG039", "PKG040", "PKG041")),
    (r"LICENSE", r".*", ("LIC006",)),
)
RELEASE: Rows = (
    (r"release\.json", r"files\[[^]]*\]\.bytes", ("CTR046", "CTR053", "CTR052", "CTR040")),
    (r"release\.json", r"files\[[^]]*\]\.sha256", ("CTR047", "CTR053", "CTR052", "CTR040")),
    (r"release\.json", r"files\[[^]]*\]\.modification_notice", ("CTR043", "CTR052", "CTR040")),
    (r"release\.json", r"files\[[^]]*\]\.component", ("CTR041", "CTR042", "CTR052", "CTR040")),
    (r"release\.json", r"files.*", ("CTR045", "CTR041", "CTR042", "CTR053", "CTR052", "CTR044", "CTR040", "PATH001")),
    (r"release\.json", r"drafter.*", ("CTR048", "CTR040", "CTR041", "CTR051", "CTR052")),
    (r"release\.json", r"runtimes.*", ("CTR049", "CTR040", "CTR041", "CTR051", "CTR052")),
    (r"release\.json", r".*", ("CTR040", "CTR041", "CTR052")),
    (r"SHA256SUMS", r".*", ("CTR053",)),
    (r"forgepack\.json", r".*", ("CTR052",)),
    (r"(README\.md|LICENSE|NOTICE|MODIFICATIONS\.md|QWEN_SOURCE\.json)", r".*", ("CTR042", "CTR046", "CTR047")),
    (r"model/.*", r".*", ("CTR046", "CTR047", "CTR044")),
    (r"coreai/manifest\.json", r"ctxs", ("CTR049", "CTR047", "CTR014")),
    (r"coreai/manifest\.json", r".*", ("CTR056", "CTR050", "CTR047", "CTR046")),
    (r".*", r".*", ("CTR046", "CTR047")),
)
