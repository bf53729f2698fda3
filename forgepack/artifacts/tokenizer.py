"""A tokenizer, by bytes and by meaning.

Libraries write the same tokenizer in several ways (merges as pairs or as strings, other key order), so two
digests are kept: of the bytes, and of what the file means. The chat template has a digest of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import hash_file, read_bounded
from forgepack.canonical import JsonBounds, digest_json, digest_runs, parse_json, parse_object, sha256_hex
from forgepack.errors import CorruptError
from forgepack.limits import TOKEN_ID, TOKENIZER_BYTES, TOKENIZER_TOKENS

TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
MAX_BYTES = TOKENIZER_BYTES
MAX_ID = TOKEN_ID
ID_STEP = 64
BOUNDS = JsonBounds(size=TOKENIZER_BYTES, tokens=TOKENIZER_TOKENS)
MERGE_STEP = 1 << 14
_PIPELINE = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """A tokenizer by bytes: digests of tokenizer.json, of the chat template, and of the other settings beside it."""

    path: Path
    sha256: str
    template_sha256: str | None
    settings_sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """A tokenizer by meaning: ``tokens`` maps id to text, added tokens included.

    ``id_digests`` are those of the texts in the order of their ids, a run of ``ID_STEP`` ids each; ``merges`` those
    of the merges' parts, a run of ``MERGE_STEP`` parts each. ``added`` are the ids of added tokens, ``flags`` what is
    stated of how each is found in a text and left out of one.
    """

    files: TokenizerFiles
    semantic_sha256: str
    tokens: Mapping[int, str]
    id_digests: tuple[str, ...]
    added: frozenset[int]
    flags: Mapping[int, Mapping[str, bool]]
    merges: tuple[str, ...]
    merge_count: int

    @property
    def path(self) -> Path:
        """The file tokenizer.json."""
        return self.files.path

    @property
    def sha256(self) -> str:
        """Digest of tokenizer.json's bytes."""
        return self.files.sha256

    @property
    def size(self) -> int:
        """One more than the highest id that decodes."""
        return max(self.tokens, default=-1) + 1


def read_tokenizer_files(folder: Path) -> TokenizerFiles:
    """Read the digests of tokenizer.json and, where present, of tokenizer_config.json; the former is not parsed."""
    path = folder / TOKENIZER_FILE
    return _files(folder, hash_file(path)[1])


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read tokenizer.json and, where present, tokenizer_config.json of a model folder."""
    path = folder / TOKENIZER_FILE
    data = read_bounded(path, MAX_BYTES)
    files = _files(folder, sha256_hex(data))
    raw = parse_object(data, where=str(path), bounds=BOUNDS)
    del data
    tokens = _tokens(path, raw)
    parts = _merge_parts(path, raw["model"].pop("merges", None))
    merges = digest_runs(parts, MERGE_STEP)
    runs = digest_runs(texts_by_id(tokens), ID_STEP)
    return Tokenizer(
        files=files,
        semantic_sha256=digest_json(_meaning(raw, runs, merges)),
        tokens=tokens,
        id_digests=shortened(runs),
        added=frozenset(entry["id"] for entry in raw.get("added_tokens", [])),
        flags={entry["id"]: _flags(entry) for entry in raw.get("added_tokens", [])},
        merges=merges,
        merge_count=len(parts) // 2,
    )


def read_json(path: Path, limit: int = MAX_BYTES) -> Any:
    """Return the value of a JSON file of any kind, within a tokenizer's bounds: it may be one under another name."""
    return parse_json(read_bounded(path, limit), where=str(path), bounds=BOUNDS)


def _files(folder: Path, sha256: str) -> TokenizerFiles:
    template, settings = _settings(folder)
    path = folder / TOKENIZER_FILE
    return TokenizerFiles(path=path, sha256=sha256, template_sha256=template, settings_sha256=settings)


def _flags(entry: Mapping[str, Any]) -> dict[str, bool]:
    return {key: value for key, value in entry.items() if type(value) is bool}


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
    return _by_id(path, pairs)


def _by_id(path: Path, pairs: list[tuple[Any, Any]]) -> dict[int, str]:
    """Return texts by id; every id is an integer from 0 on and has one text."""
    texts, numbers = [text for text, _ in pairs], [number for _, number in pairs]
    if set(map(type, numbers)) <= {int} and set(map(type, texts)) <= {str}:
        tokens = dict(zip(numbers, texts, strict=True))
        if len(tokens) == len(pairs) and min(numbers, default=0) >= 0 and max(numbers, default=0) <= MAX_ID:
            return tokens
    return _told_by_id(path, pairs)


def _told_by_id(path: Path, pairs: list[tuple[Any, Any]]) -> dict[int, str]:
    """Return texts by id, each looked at by itself: to allow what is said twice, and to name what is wrong."""
    tokens: dict[int, str] = {}
    for text, number in pairs:
        if type(number) is not int or not 0 <= number <= MAX_ID or type(text) is not str:
            found, expected = f"{text!r:.80} with id {number!r:.40}", f"a text, and an id of at most {MAX_ID}"
            what = "a token needs a text and an id"
            raise CorruptError(what, where=str(path), expected=expected, found=found, code="tokenizer")
        if tokens.setdefault(number, text) != text:
            found = f"{tokens[number]!r} and {text!r}"
            raise CorruptError("two tokens share an id", where=f"{path}: id {number}", found=found, code="tokenizer")
    return tokens


def _meaning(raw: Mapping[str, Any], runs: tuple[str, ...], merges: tuple[str, ...]) -> dict[str, Any]:
    """Return what the file means, its long lists as digests of runs: no text of it all is in memory."""
    model = {k: v for k, v in raw["model"].items() if k != "vocab"}
    return {
        "ids": runs,
        "model": {k: v for k, v in model.items() if v is not None},
        "merges": merges,
        "added_tokens": sorted(raw.get("added_tokens", []), key=lambda a: int(a["id"])),
        "pipeline": {k: raw.get(k) for k in _PIPELINE},
    }


def _merge_parts(path: Path, merges: Any) -> list[str]:
    """Return the two parts of each merge in order, whether written as a pair or as a string with one space."""
    if not isinstance(merges, list | None):
        raise CorruptError("merges must be a list", where=f"{path}: model.merges", code="tokenizer")
    merges = merges or []
    pairs = [merge.split(" ") if type(merge) is str else merge for merge in merges]
    if set(map(type, pairs)) <= {list} and set(map(len, pairs)) <= {2}:
        parts = list(chain.from_iterable(pairs))
        if set(map(type, parts)) <= {str}:
            return parts
    wrong = next(m for m, pair in zip(merges, pairs, strict=True) if not _is_pair(pair))
    where = f"{path}: model.merges"
    raise CorruptError("a merge needs two parts", where=where, found=repr(wrong)[:80], code="tokenizer")


def _is_pair(value: Any) -> bool:
    return type(value) is list and len(value) == 2 and set(map(type, value)) == {str}


def _settings(folder: Path) -> tuple[str | None, str | None]:
    """Return the digests of the chat template, wherever it stands, and of the other settings beside it."""
    path = folder / TOKENIZER_CONFIG
    raw = parse_object(read_bounded(path, MAX_BYTES), where=str(path), bounds=BOUNDS) if path.exists() else None
    template = raw.pop("chat_template", None) if raw is not None else None
    # A template in a file of its own is taken before the one in tokenizer_config.json.
    files = {name: sha256_hex(read_bounded(folder / name)) for name in TEMPLATE_FILES if (folder / name).exists()}
    if files:
        template = {"tokenizer_config": template, "files": files}
    return (None if template is None else digest_json(template)), (None if raw is None else digest_json(raw))


def first_difference(left: Tokenizer, right: Tokenizer) -> tuple[int, str | None, str | None, int] | None:
    """Return (first differing id, both texts, count of differing ids), or None when the ids agree."""
    ids = sorted(set(left.tokens) | set(right.tokens))
    differing = [n for n in ids if left.tokens.get(n) != right.tokens.get(n)]
    if not differing:
        return None
    first = differing[0]
    return first, left.tokens.get(first), right.tokens.get(first), len(differing)


def texts_by_id(tokens: Mapping[int, str]) -> list[str | None]:
    """Return the texts in the order of their ids, None for an id without one."""
    return list(map(tokens.get, range(max(tokens, default=-1) + 1)))


def shortened(digests: Iterable[str]) -> tuple[str, ...]:
    """Return the first eight hex digits of digests: 32 bits a run show where ids moved."""
    return tuple(digest[:8] for digest in digests)
