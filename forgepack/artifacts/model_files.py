"""The files of model/ beside config, tokenizer and embedding: read, and compared with tokenizer.json.

Tools take token ids from several of them, and not all from the same one: where two disagree, two tools see two
models. Qwen's own files repeat the added tokens in tokenizer_config.json, leave them out of vocab.json, and state
several end tokens; all of that agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import hash_file, read_bounded
from forgepack.artifacts.plain_files import file_faults
from forgepack.artifacts.tokenizer import MERGE_STEP, TOKENIZER_CONFIG, Tokenizer
from forgepack.canonical import digest_json, digest_runs, parse_object
from forgepack.errors import CorruptError, ForgepackError
from forgepack.profile import TargetPin

ADDED, VOCAB, MERGES = "added_tokens.json", "vocab.json", "merges.txt"
SPECIAL, GENERATION = "special_tokens_map.json", "generation_config.json"
TEMPLATE_TEXT, TEMPLATE_JSON, SENTENCEPIECE = "chat_template.jinja", "chat_template.json", "tokenizer.model"
# A sidecar binds config, tokenizer, settings, templates and embedding in records of their own, and these here.
BOUND = (ADDED, GENERATION, MERGES, SPECIAL, SENTENCEPIECE, VOCAB)
_JSON = (ADDED, TEMPLATE_JSON, GENERATION, SPECIAL, TOKENIZER_CONFIG, VOCAB)
_ROLES = ("bos_token", "cls_token", "eos_token", "mask_token", "pad_token", "sep_token", "unk_token")
_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One place in which a file does not agree with another: file, JSON path, what the other says, what is there."""

    file: str
    path: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """What of a model folder could be read: JSON objects by name, parts of merges.txt, the template's text."""

    root: Path
    raw: Mapping[str, Mapping[str, Any]]
    merges: tuple[str, ...] | None
    template: str | None


def read_model_files(root: Path, names: Sequence[str]) -> tuple[ModelFiles, list[ForgepackError]]:
    """Read those of ``names`` that no reader of their own has; each fault is returned.

    Codes: those of strict JSON and of plain files, and ``model-file`` for a merges.txt that holds no merges.
    """
    faults: list[ForgepackError] = []
    read: dict[str, Any] = {}
    for name in names:
        if name in _READERS:
            try:
                read[name] = _READERS[name](root / name)
            except ForgepackError as err:
                faults.append(err)
        elif name == SENTENCEPIECE:
            faults += file_faults(root / name)
    merges, template = read.pop(MERGES, None), read.pop(TEMPLATE_TEXT, None)
    return ModelFiles(root=root, raw=read, merges=merges, template=template), faults


def _object(path: Path) -> dict[str, Any]:
    return parse_object(read_bounded(path, _MAX_BYTES), where=str(path))


def _template(path: Path) -> str:
    for fault in file_faults(path):
        raise fault
    return _text(path)


def _text(path: Path) -> str:
    try:
        return read_bounded(path, _MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError as err:
        what, found = "the file is not UTF-8", f"byte {err.start}"
        raise CorruptError(what, where=str(path), found=found, code="model-file") from err


def read_merges(path: Path) -> tuple[str, ...]:
    r"""Return the two parts of each merge of a merges.txt in order; its first line may state a version.

    Lines end in ``\n`` or ``\r\n`` alone: other line separators are characters that a merge may hold.
    """
    lines = [line.removesuffix("\r") for line in _text(path).split("\n")]
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    while lines and not lines[-1]:
        lines.pop()
    pairs = [line.split(" ") for line in lines]
    wrong = next((n for n, pair in enumerate(pairs) if len(pair) != 2 or not all(pair)), None)
    if wrong is not None or not pairs:
        where, found = (
            f"{path}: merge {wrong or 0}",
            repr(lines[wrong])[:80] if wrong is not None else "an empty file",
        )
        what = "a merge needs two parts"
        raise CorruptError(what, where=where, expected="two parts and a space", found=found, code="model-file")
    return tuple(chain.from_iterable(pairs))


_READERS: dict[str, Callable[[Path], Any]] = {
    **dict.fromkeys(_JSON, _object),
    MERGES: read_merges,
    TEMPLATE_TEXT: _template,
}


def model_file_record(path: Path, size: int, sha256: str) -> dict[str, Any]:
    """Return a file as a sidecar records it: bytes and, where these may change without it, content.

    Of generation_config.json the token ids are the content: temperatures and the like are the serving side's. Raises
    the errors of reading the file by its form.
    """
    record: dict[str, Any] = {"bytes": size, "sha256": sha256}
    if path.name == MERGES:
        record["content_sha256"] = digest_json(digest_runs(read_merges(path), MERGE_STEP))
    elif path.suffix == ".json":
        raw = _object(path)
        meaning = {key: raw.get(key) for key in _IDS} if path.name == GENERATION else raw
        record["content_sha256"] = digest_json(meaning)
    return record


def describe_model_files(root: Path) -> dict[str, Any]:
    """Return the record of each file of ``BOUND`` that is there, by name."""
    there = [root / name for name in BOUND if (root / name).is_file()]
    return {path.name: model_file_record(path, *hash_file(path)) for path in there}


def range_disagreements(files: ModelFiles, rows: int) -> Iterator[Disagreement]:
    """Yield every token id of the JSON files that is not valid, or has no row of the vocabulary's ``rows``."""
    stated = [(ADDED, text, number) for text, number in files.raw.get(ADDED, {}).items()]
    stated += [(VOCAB, text, number) for text, number in files.raw.get(VOCAB, {}).items()]
    stated += [(TOKENIZER_CONFIG, text, number) for number, text in _decoder(files)]
    for name, text, number in stated:
        if type(number) is not int or not 0 <= number < rows:
            yield Disagreement(
                file=name, path=f"{text!r:.80}", expected=f"an id below {rows}", found=f"{number!r:.40}"
            )


def _decoder(files: ModelFiles) -> Iterator[tuple[Any, Any]]:
    """Yield (id, text) of added_tokens_decoder; a key that is not an id is yielded as it is, to be reported."""
    decoder = files.raw.get(TOKENIZER_CONFIG, {}).get("added_tokens_decoder")
    for key, entry in decoder.items() if isinstance(decoder, Mapping) else ():
        number = int(key) if key.isascii() and key.isdigit() and len(key) < 12 else key
        yield number, entry.get("content") if isinstance(entry, Mapping) else entry


def token_disagreements(files: ModelFiles, tokenizer: Tokenizer) -> Iterator[Disagreement]:
    """Yield where added tokens, vocabulary or merges are not tokenizer.json's."""
    added = files.raw.get(ADDED, {})
    for text, number in added.items():
        yield from _same_token(ADDED, number, text, tokenizer)
    for number, text in _decoder(files):
        yield from _same_token(TOKENIZER_CONFIG, number, text, tokenizer)
    if VOCAB in files.raw:
        yield from _vocabulary(files.raw[VOCAB], tokenizer)
    if files.merges is not None:
        yield from _merges(files.merges, tokenizer)


def _same_token(file: str, number: Any, text: Any, tokenizer: Tokenizer) -> Iterator[Disagreement]:
    expected = tokenizer.tokens.get(number) if type(number) is int else None
    if expected is None or expected != text:
        there = "no such token" if expected is None else f"{expected!r:.80}"
        yield Disagreement(file=file, path=f"id {number!r:.40}", expected=there, found=f"{text!r:.80}")


def _vocabulary(vocab: Mapping[str, Any], tokenizer: Tokenizer) -> Iterator[Disagreement]:
    """Yield tokens of vocab.json that are others in tokenizer.json, and how many it lacks, added ones apart."""
    for text, number in vocab.items():
        if type(number) is not int or tokenizer.tokens.get(number) != text:
            yield from _same_token(VOCAB, number, text, tokenizer)
    there = {number for number in vocab.values() if type(number) is int}
    lost = sorted(set(tokenizer.tokens) - there - tokenizer.added)
    if lost:
        first = f"id {lost[0]} {tokenizer.tokens[lost[0]]!r:.80}"
        yield Disagreement(
            file=VOCAB, path=first, expected="every token but the added ones", found=f"{len(lost)} missing"
        )


def _merges(parts: tuple[str, ...], tokenizer: Tokenizer) -> Iterator[Disagreement]:
    runs = digest_runs(parts, MERGE_STEP)
    if runs == tokenizer.merges:
        return
    half = MERGE_STEP // 2
    count = len(parts) // 2
    run = next((n for n, (a, b) in enumerate(zip(runs, tokenizer.merges, strict=False)) if a != b), None)
    place = "their number" if run is None else f"merges {run * half} to {min(count, (run + 1) * half) - 1}"
    yield Disagreement(
        file=MERGES,
        path=place,
        expected=f"the {tokenizer.merge_count} merges of tokenizer.json",
        found=f"{count} merges",
    )


def special_tokens(files: ModelFiles) -> Iterator[tuple[str, str, Any]]:
    """Yield (file, key, text) of every special token that special_tokens_map.json and tokenizer_config.json name."""
    for name in (SPECIAL, TOKENIZER_CONFIG):
        for key, value in sorted(files.raw.get(name, {}).items()):
            named = name == SPECIAL or key in _ROLES or key == "additional_special_tokens"
            if not named or value is None:
                continue
            values = value if isinstance(value, list) else value.values() if _named(value) else [value]
            for one in values:
                yield name, key, one.get("content") if isinstance(one, Mapping) else one


def _named(value: Any) -> bool:
    """Whether a value maps names to tokens, as extra special tokens do, and is not a token itself."""
    return isinstance(value, Mapping) and "content" not in value


def special_disagreements(files: ModelFiles, tokenizer: Tokenizer) -> Iterator[Disagreement]:
    """Yield special tokens whose text is not a token of tokenizer.json."""
    texts = set(tokenizer.tokens.values())
    for name, key, text in special_tokens(files):
        if type(text) is not str or text not in texts:
            yield Disagreement(file=name, path=key, expected="a token of tokenizer.json", found=f"{text!r:.80}")


def token_role_disagreements(
    files: ModelFiles, tokenizer: Tokenizer, *, ends: tuple[int, ...], mask: str
) -> Iterator[Disagreement]:
    """Yield end and mask tokens of special_tokens_map.json and tokenizer_config.json that are not the pair's."""
    texts: set[Any] = {tokenizer.tokens.get(number) for number in ends}
    allowed = {"eos_token": texts, "mask_token": {mask}}
    for name, key, text in special_tokens(files):
        if type(text) is str and text not in allowed.get(key, {text}):
            expected = " or ".join(sorted(f"{one!r:.80}" for one in allowed[key] if one is not None))
            yield Disagreement(file=name, path=key, expected=expected, found=f"{text!r:.80}")


def flag_disagreements(files: ModelFiles, tokenizer: Tokenizer) -> Iterator[Disagreement]:
    """Yield added tokens that added_tokens_decoder treats otherwise than tokenizer.json, where both state how."""
    decoder = files.raw.get(TOKENIZER_CONFIG, {}).get("added_tokens_decoder")
    for key, entry in decoder.items() if isinstance(decoder, Mapping) else ():
        known = tokenizer.flags.get(int(key), {}) if key.isascii() and key.isdigit() and len(key) < 12 else {}
        for flag, expected in sorted(known.items()):
            if isinstance(entry, Mapping) and flag in entry and entry[flag] is not expected:
                path = f"added_tokens_decoder.{key}.{flag}"
                found = f"{entry[flag]!r:.40}"
                yield Disagreement(file=TOKENIZER_CONFIG, path=path, expected=f"{expected}", found=found)


def role_disagreements(files: ModelFiles) -> Iterator[Disagreement]:
    """Yield roles, as the end token, to which special_tokens_map.json and tokenizer_config.json give two tokens."""
    stated: dict[tuple[str, str], Any] = {(name, key): text for name, key, text in special_tokens(files)}
    for key in _ROLES:
        one, other = stated.get((TOKENIZER_CONFIG, key)), stated.get((SPECIAL, key))
        if None not in (one, other) and one != other:
            expected = f"{one!r:.80}, as {TOKENIZER_CONFIG} says"
            yield Disagreement(file=SPECIAL, path=key, expected=expected, found=f"{other!r:.80}")


def generation_disagreements(
    files: ModelFiles, *, ends: tuple[int, ...], used: int, config: Mapping[str, Any]
) -> Iterator[Disagreement]:
    """Yield ids of generation_config.json that are not the pair's.

    End tokens, where they are stated, are one or more of ``ends``, other ids below ``used``, the number of ids that
    decode; where ``config`` states the same id it is the same.
    """
    generation = files.raw.get(GENERATION, {})
    for key in _IDS:
        value = generation.get(key)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if value == []:
            yield _generation(key, "an id, or no such key", value)
        for number in values:
            if type(number) is not int or not 0 <= number < used:
                yield _generation(key, f"an id below {used}, one that decodes", number)
            elif key == "eos_token_id" and number not in ends:
                yield _generation(key, f"end tokens among {sorted(ends)}", number)
            elif key != "eos_token_id" and type(config.get(key)) is int and config[key] != number:
                yield _generation(key, f"{config[key]}, as config.json says", number)


def _generation(key: str, expected: str, found: Any) -> Disagreement:
    return Disagreement(file=GENERATION, path=key, expected=expected, found=f"{found!r:.40}")


def template_disagreements(files: ModelFiles) -> Iterator[Disagreement]:
    """Yield templates of the three places that are not one text; space at the end and line ends do not count."""
    stated = [
        (TEMPLATE_TEXT, files.template),
        (TEMPLATE_JSON, files.raw.get(TEMPLATE_JSON, {}).get("chat_template")),
        (TOKENIZER_CONFIG, files.raw.get(TOKENIZER_CONFIG, {}).get("chat_template")),
    ]
    texts = [(name, text.replace("\r\n", "\n").strip()) for name, text in stated if isinstance(text, str)]
    for name, text in texts[1:]:
        if text != texts[0][1]:
            yield Disagreement(
                file=name, path="chat_template", expected=f"the text of {texts[0][0]}", found="another text"
            )


def disagreements(
    files: ModelFiles, tokenizer: Tokenizer, pin: TargetPin, *, rows: int, config: Mapping[str, Any]
) -> Iterator[Disagreement]:
    """Yield every disagreement that is an error: ids without a row first, then what is not tokenizer.json's."""
    ends, used, mask = pin.eos_tokens, pin.used_tokens, pin.mask_token_text
    yield from range_disagreements(files, rows)
    yield from token_disagreements(files, tokenizer)
    yield from special_disagreements(files, tokenizer)
    yield from token_role_disagreements(files, tokenizer, ends=ends, mask=mask)
    yield from generation_disagreements(files, ends=ends, used=used, config=config)
