"""Which file of a release is checked how: the table that leaves no file without an answer.

Paths are those that reports show: ``drafter/``, ``model/``, ``coreai/``, ``export/`` (below the export's own name),
``checkpoint/``, ``quant/``, and the root of a bundle. The first line that matches counts.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from forgepack.artifacts.lock import LOCK_NAME
from forgepack.artifacts.quant import QUANT_FILE
from forgepack.artifacts.quant_report import REPORT_FILE

_TARGET = "sidecar: forgepack.target"
_PACKAGE = "sidecar: forgepack.package.files"
_CHECKPOINT = "checkpoint.lock.json"
_SUMS = "release.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Files whose path matches ``pattern`` as a whole, and what is known of them.

    ``judged`` are the rules of which one refuses a spoiled file, or warns of it; ``bound`` is where their digest is
    recorded; ``reason`` says why no rule checks what they mean: such files are named in every report.
    """

    pattern: str
    judged: tuple[str, ...] = ()
    bound: str = ""
    reason: str = ""


FILES: tuple[Covered, ...] = (
    # The drafter package.
    Covered(
        pattern=r"drafter/[^/]+\.aimodel/main\.(mlirb|hash)", judged=("PKG014", "PKG015", "PKG012"), bound=_PACKAGE
    ),
    Covered(pattern=r"drafter/[^/]+\.aimodel/metadata\.json", judged=("PKG015", "PKG014"), bound=_PACKAGE),
    Covered(
        pattern=r"drafter/(config\.json|selector\.safetensors|DFLASH2_SOURCE\.json|LICENSE|NOTICE)",
        judged=("PKG014", "PKG001", "LIC001", "LIC002"),
        bound=_PACKAGE,
    ),
    Covered(
        pattern=r"drafter/dflash2_[^/]+\.json", judged=("PKG022", "CTR002", "FMT001", "WGT011"), bound="metadata.json"
    ),
    Covered(
        pattern=r"drafter/([^/]*/)*[^/]*\.(md|txt|pdf|png|jpe?g|svg|gif|gitattributes|gitkeep)",
        reason="a document beside the package: nothing loads it",
    ),
    Covered(pattern=r"drafter/.*", judged=("PKG010", "PKG011")),
    # The target's model folder.
    Covered(pattern=r"model/config\.json", judged=("CTR022", "FMT001"), bound=_TARGET),
    Covered(pattern=r"model/tokenizer\.json", judged=("TOK001", "TOK002", "TOK006"), bound=_TARGET),
    Covered(pattern=r"model/tokenizer_config\.json", judged=("TOK004", "TOK003", "FMT001"), bound=_TARGET),
    Covered(pattern=r"model/embed_tokens_fp16\.npy", judged=("WGT017", "FMT016", "FMT012"), bound=_TARGET),
    Covered(
        pattern=r"model/(added_tokens\.json|merges\.txt|vocab\.json)",
        judged=("CTR080", "TOK020", "TOK021", "FMT001"),
        bound=_TARGET,
    ),
    Covered(pattern=r"model/special_tokens_map\.json", judged=("CTR080", "TOK022", "FMT001"), bound=_TARGET),
    Covered(pattern=r"model/generation_config\.json", judged=("TOK024", "CTR081", "FMT001"), bound=_TARGET),
    Covered(
        pattern=r"model/tokenizer\.model",
        judged=("CTR080",),
        bound=_TARGET,
        reason="bound, not read: its own format, which tokenizer.json replaces",
    ),
    Covered(
        pattern=r"model/chat_template\.(jinja|json)",
        judged=("TOK003", "TOK025"),
        bound=_TARGET,
        reason="bound and compared as text: what a template makes of a chat is not checked",
    ),
    Covered(pattern=r"model/.*", reason="not part of a release: forgepack bundle leaves it out"),
    # The target's build.
    Covered(pattern=r"coreai/manifest\.json", judged=("CTR020", "CTR021", "CTR016", "FMT001"), bound=_TARGET),
    Covered(pattern=r"coreai/basis\.json", judged=("CTR025", "CTR023"), bound=_TARGET),
    Covered(
        pattern=r"coreai/([^/]+\.aimodel[cx]|.*/[^/]+\.aimodel[cx])/.*",
        judged=("CTR023", "CTR024"),
        bound=_TARGET,
        reason="compiled: bound, not read, and nothing proves that it was compiled from the package beside it",
    ),
    Covered(
        pattern=r"coreai/head[^/]*\.aimodel/main\.(mlirb|hash)", judged=("CTR023", "HEAD005", "PKG012"), bound=_TARGET
    ),
    Covered(
        pattern=r"coreai/[^/]+\.aimodel/main\.(mlirb|hash)",
        judged=("CTR023", "PKG013", "CTR024"),
        bound=_TARGET,
        reason="entry points and outputs are read: what a chunk's layers compute is not checked",
    ),
    Covered(pattern=r"coreai/[^/]+\.aimodel/metadata\.json", judged=("CTR023", "FMT001", "CTR024"), bound=_TARGET),
    Covered(
        pattern=r"coreai/.*",
        judged=("CTR023", "CTR024", "PKG043"),
        bound=_TARGET,
        reason="not a package of the manifest: bound, and checked only for a failed download",
    ),
    # The target's export.
    Covered(pattern=r"export/lm_head\.safetensors", judged=("HEAD008", "HEAD001", "CTR023"), bound=_TARGET),
    Covered(
        pattern=r"export/layer_\d+(_mixer)?\.safetensors",
        judged=("CTR023", "CTR024", "PKG038", "PKG040", "PKG041", "PKG060", "FMT014"),
        bound=_TARGET,
        reason="names, header and digest are checked: what a layer's tensors mean is not",
    ),
    Covered(pattern=r"export/model\.safetensors\.index\.json", judged=("PKG039", "CTR023", "CTR024"), bound=_TARGET),
    Covered(pattern=r"export/basis\.json", judged=("CTR025", "CTR023"), bound=_TARGET),
    Covered(
        pattern=r"export/.*",
        judged=("CTR023", "CTR024", "PKG038", "PKG043"),
        bound=_TARGET,
        reason="not a layer's file: bound, and checked only for a failed download",
    ),
    # Sources.
    Covered(
        pattern=r"checkpoint/checkpoint\.lock\.json",
        judged=("SRC002", "SRC018"),
        bound="sidecar: forgepack.checkpoint",
    ),
    Covered(
        pattern=r"checkpoint/(config\.json|model\.safetensors|LICENSE|NOTICE)",
        judged=("SRC005", "SRC004", "SRC006", "LIC004"),
        bound=_CHECKPOINT,
    ),
    Covered(
        pattern=r"checkpoint/README\.md", bound=_CHECKPOINT, reason="a model card: bound where the lock lists it"
    ),
    Covered(pattern=r"checkpoint/.*", judged=("PKG042", "SRC005")),
    Covered(pattern=r"quant/drafter_quant\.safetensors", judged=("SRC011", "WGT004"), bound="report.json"),
    Covered(
        pattern=r"quant/report\.json", judged=("SRC019", "SRC010", "FMT001"), bound="sidecar: forgepack.quantization"
    ),
    Covered(pattern=r"quant/.*", judged=("PKG042",)),
    # The root of a bundle.
    Covered(pattern=r"release\.json", judged=("CTR052", "CTR040", "CTR053", "FMT001"), bound="forgepack.json"),
    Covered(pattern=r"forgepack\.json", judged=("CTR052", "CTR053"), bound="SHA256SUMS"),
    Covered(pattern=r"SHA256SUMS", judged=("CTR053",)),
    Covered(
        pattern=r"(LICENSE|MODIFICATIONS\.md|NOTICE|QWEN_SOURCE\.json|README\.md)",
        judged=("CTR047", "CTR046", "CTR045"),
        bound=_SUMS,
        reason="must be there and hold text: what it says is not checked",
    ),
    Covered(pattern=r"config\.json", judged=("CTR082",)),
    Covered(pattern=r".*", judged=("CTR082", "CTR045")),
)

# Files that tools put beside a release, a checkpoint or a quantization: no list names them, and none is reported.
TOOLS: tuple[Covered, ...] = (
    Covered(pattern=r"\.gitattributes|\.gitignore", reason="git, and the hub at each upload"),
    Covered(pattern=r"\.git(/.*)?", reason="git: a clone"),
    Covered(pattern=r"\.cache|\.cache/huggingface(/.*)?", reason="the hub's client: a download into a folder"),
    Covered(pattern=r"(.*/)?\.DS_Store", reason="macOS"),
    Covered(pattern=r"SHA256SUMS|forgepack\.json", reason="forgepack bundle"),
    Covered(pattern=r"claims\.jsonl?|[^/]+\.intoto\.jsonl", reason="statements about the release"),
    Covered(pattern=r"[^/]+\.(sig|asc|sigstore|sigstore\.json|p7s|minisig)", reason="signatures"),
    Covered(pattern=r"[^/]+\.(cdx|spdx)\.json|(bom|sbom)\.(json|xml)", reason="bills of material"),
    Covered(pattern=r"[^/]+\.attestation\.json", reason="forgepack attest"),
)
# What a source folder holds beside what its lock or report lists.
SOURCES_LISTED: dict[str, frozenset[str]] = {
    "checkpoint": frozenset({LOCK_NAME}),
    "quant": frozenset({QUANT_FILE, REPORT_FILE}),
}


@functools.cache
def _compiled(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    return re.compile(pattern, flags)


def covering(path: str) -> Covered:
    """Return the first line of ``FILES`` that matches a path as reports show it; there always is one."""
    return next(line for line in FILES if _compiled(line.pattern).fullmatch(path))


def is_known_in_another_case(path: str) -> bool:
    """Say whether a path is another's where case is ignored: of a file that rules check under its own name.

    What a package is called is its manifest's to say: any case is its own.
    """
    known = next(line for line in FILES if _compiled(line.pattern, re.IGNORECASE).fullmatch(path))
    return bool(known.judged) and known is not covering(path) and ".aimodel" not in path


def by_tools(path: str) -> Covered | None:
    """Return the line of ``TOOLS`` for a path below a release's root or a source folder, None for any other file."""
    return next((line for line in TOOLS if _compiled(line.pattern).fullmatch(path)), None)
