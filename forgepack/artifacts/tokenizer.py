"""A tokenizer, by bytes and by meaning.

Libraries write the same tokenizer in several ways (merges as pairs or as strings, other key order), so two
digests are kept: of the bytes, and of what the file means. The chat template has a digest of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import read_bounded
from forgepack.canonical import digest_json, parse_object, sha256_hex
from forgepack.errors import CorruptError

TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
MAX_BYTES = 64 << 20
ID_STEP = 64
_PIPELINE = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """Identity of a tokenizer: ``tokens`` maps id to text, added tokens included."""

    path: Path
    sha256: str
    semantic_sha256: str
    tokens: Mapping[int, str]
    template_sha256: str | None
    settings_sha256: str | None

    @property
    def size(self) -> int:
        """One more than the highest id that decodes."""
        return max(self.tokens, default=-1) + 1


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read tokenizer.json and, where present, tokenizer_config.json of a model folder."""
    path = folder / TOKENIZER_FILE
    data = read_bounded(path, MAX_BYTES)
    raw = parse_object(data, where=str(path))
    tokens = _tokens(path, raw)
    template, settings = _settings(folder)
    return Tokenizer(
        path=path,
        sha256=sha256_hex(data),
        semantic_sha256=digest_json(_meaning(path, raw, tokens)),
        tokens=tokens,
        template_sha256=template,
        settings_sha256=settings,
    )


def _tokens(path: Path, raw: Mapping[str, Any]) -> dict[int, str]:
    model = raw.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, list):  # Unigram: a list of [text, score], ids are places
        pairs: list[tuple[Any, Any]] = [
            (entry[0], n) for n, entry in enumerate(vocab) if isinstance(entry, list) and entry
        ]
    elif isinstance(vocab, dict):
        pairs = list(vocab.items())
    else:
        raise CorruptError("the tokenizer has no vocabulary", where=f"{path}: model.vocab", code="tokenizer")
    added = raw.get("added_tokens", [])
    if not isinstance(added, list) or not all(isinstance(entry, dict) for entry in added):
        raise CorruptError("added_tokens must be a list of objects", where=str(path), code="tokenizer")
    pairs += [(entry.get("content"), entry.get("id")) for entry in added]
    tokens: dict[int, str] = {}
    for text, number in pairs:
        if type(number) is not int or number < 0 or not isinstance(text, str):
            raise CorruptError(
                "a token needs a text and an id", where=str(path), found=repr(text)[:80], code="tokenizer"
            )
        if tokens.setdefault(number, text) != text:
            found = f"{tokens[number]!r} and {text!r}"
            raise CorruptError("two tokens share an id", where=f"{path}: id {number}", found=found, code="tokenizer")
    return tokens


def _meaning(path: Path, raw: Mapping[str, Any], tokens: Mapping[int, str]) -> dict[str, Any]:
    model = {k: v for k, v in raw["model"].items() if k not in ("vocab", "merges")}
    added = sorted(raw.get("added_tokens", []), key=lambda a: int(a["id"]))
    merges = raw["model"].get("merges")
    if not isinstance(merges, list | None):
        raise CorruptError("merges must be a list", where=f"{path}: model.merges", code="tokenizer")
    pairs = [_merge(path, merge) for merge in merges or []]
    return {
        "tokens": [[n, tokens[n]] for n in sorted(tokens)],
        "model": {k: v for k, v in model.items() if v is not None},
        "merges": pairs,
        "added_tokens": added,
        "pipeline": {k: raw.get(k) for k in _PIPELINE},
    }


def _merge(path: Path, merge: Any) -> list[str]:
    """Return one merge as a pair, whether it was written as a pair or as a string with one space."""
    pair = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        found = repr(merge)[:80]
        raise CorruptError("a merge needs two parts", where=f"{path}: model.merges", found=found, code="tokenizer")
    return pair


def _settings(folder: Path) -> tuple[str | None, str | None]:
    path = folder / TOKENIZER_CONFIG
    if not path.exists():
        return None, None
    raw = parse_object(read_bounded(path, MAX_BYTES), where=str(path))
    template = raw.pop("chat_template", None)
    return (None if template is None else digest_json(template)), digest_json(raw)


def first_difference(left: Tokenizer, right: Tokenizer) -> tuple[int, str | None, str | None, int] | None:
    """Return (first differing id, both texts, count of differing ids), or None when the ids agree."""
    ids = sorted(set(left.tokens) | set(right.tokens))
    differing = [n for n in ids if left.tokens.get(n) != right.tokens.get(n)]
    if not differing:
        return None
    first = differing[0]
    return first, left.tokens.get(first), right.tokens.get(first), len(differing)


def id_digests(tokens: Mapping[int, str], step: int = ID_STEP) -> tuple[str, ...]:
    """Return eight hex digits for each run of ``step`` ids: 32 bits a run tell where ids moved."""
    count = max(tokens, default=-1) + 1
    runs = ([tokens.get(n) for n in range(start, min(start + step, count))] for start in range(0, count, step))
    return tuple(digest_json(run)[:8] for run in runs)
