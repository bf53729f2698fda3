"""VOC: one vocabulary on both sides; tokenizer ids in use, config size and head rows are three numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forgepack.json_values import equal_json
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_CODEBOOK = "candidate_selector.predecessor_codebook"


def _rows(pair: Pair) -> Iterator[tuple[str, str, Any]]:
    """Yield (subject, place, number of rows) of everything that has one row a token."""
    if pair.config.available:
        config = pair.config.value
        yield "vocab_size of the drafter", pair.place(config.path, "vocab_size"), config.raw.get("vocab_size")
    if pair.target_config.available:
        target = pair.target_config.value
        yield "vocab_size of the target", pair.place(target.path, "vocab_size"), target.vocab
    if pair.embedding.available:
        table = pair.embedding.value
        yield "rows of the embedding", pair.place(table.path), table.shape[0]
    if pair.head.available and "lm_head.idx" in pair.head.value.tensors:
        head = pair.head.value
        yield "rows of the head", pair.place(head.path, "lm_head.idx"), head.tensors["lm_head.idx"].shape[:1]
    if pair.selector.available and _CODEBOOK in pair.selector.value.tensors:
        selector = pair.selector.value
        yield "rows of the codebooks", pair.place(selector.path, _CODEBOOK), selector.tensors[_CODEBOOK].shape[:1]


@rule(
    "VOC001",
    title="configs, embedding, head and codebooks have the profile's number of rows",
    why="a row more or less shifts or cuts every token after it, and a padded head of another size can't be shared",
    remedy="use the target that the drafter was trained for",
    each_of=("config", "target_config", "embedding", "head", "selector"),
)
def rows(pair: Pair) -> Iterator[Finding]:
    """Everything with one row a token has as many rows as the profile's vocabulary, padding included."""
    stated = list(_rows(pair))
    expected = pair.profile.geometry.vocab
    numbers = ", ".join(f"{subject} {_number(value)}" for subject, _, value in stated)
    for subject, where, value in stated:
        if not equal_json(_number(value), expected):
            yield differing(subject, where, expected=expected, found=_number(value), message=numbers)


def _number(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) and value else value


@rule(
    "VOC002",
    title="the tokenizer's ids are those that the profile counts, and fit the rows",
    why="an id past the last row reads beyond the embedding; padding rows above the used ids are normal",
    remedy="restore tokenizer.json from the target's release",
    depth="lineage",
    needs=("tokenizer",),
)
def used_tokens(pair: Pair) -> Iterator[Finding]:
    """The highest id that decodes is one below the profile's number of used tokens."""
    tokenizer, profile = pair.tokenizer.value, pair.profile
    where = pair.place(tokenizer.path)
    rows, used = profile.geometry.vocab, profile.target.used_tokens
    if tokenizer.size > rows:
        yield differing("highest token id", where, expected=f"below {rows} rows", found=tokenizer.size - 1)
    elif tokenizer.size != used:
        numbers = f"ids in use {tokenizer.size}, rows {rows}: rows above the ids in use are padding"
        yield differing("token ids in use", where, expected=used, found=tokenizer.size, message=numbers)


@rule(
    "VOC003",
    title="the mask token is stated and is the profile's",
    why="blocks are drafted from the mask token's embedding row; another row drafts noise",
    remedy="restore config.json from the checkpoint",
    needs=("config",),
)
def mask_token(pair: Pair) -> Iterator[Finding]:
    """dflash_config.mask_token_id is the profile's: present, in range, no end token."""
    config, geometry = pair.config.value, pair.profile.geometry
    inner = config.raw.get("dflash_config")
    found = inner.get("mask_token_id") if isinstance(inner, dict) else None
    if equal_json(found, geometry.mask_token):
        return
    where = pair.place(config.path, "dflash_config.mask_token_id")
    yield differing("mask token", where, expected=geometry.mask_token, found=found, message=_mask_fault(pair, found))


def _mask_fault(pair: Pair, found: Any) -> str:
    if found is None:
        return "the mask token is not stated; it is never guessed"
    if type(found) is not int:
        return "the mask token is not a token id"
    if not 0 <= found < pair.profile.geometry.vocab:
        return f"the id is outside the {pair.profile.geometry.vocab} rows of the embedding"
    if found in pair.profile.target.eos_tokens:
        return "the id is an end token"
    return "the id is a padding row" if found >= pair.profile.target.used_tokens else "the id is another token"


@rule(
    "VOC004",
    title="the mask token decodes to the text that the profile pins",
    why="a re-ordered tokenizer moves the mask to another row of the embedding",
    remedy="restore tokenizer.json from the target's release",
    depth="lineage",
    needs=("tokenizer",),
    after=("TOK001",),
)
def mask_text(pair: Pair) -> Iterator[Finding]:
    """The profile's mask id decodes, to the profile's text."""
    tokenizer, expected = pair.tokenizer.value, pair.profile.target.mask_token_text
    mask = pair.profile.geometry.mask_token
    found = tokenizer.tokens.get(mask)
    if found != expected:
        where = pair.place(tokenizer.path, f"id {mask}")
        shown = "a padding row, which does not decode" if found is None else repr(found)
        yield differing("text of the mask token", where, expected=repr(expected), found=shown)


@rule(
    "VOC005",
    title="the target ends at the profile's end tokens",
    why="a drafter trained on other end tokens drafts past the end, or stops early",
    remedy="restore the target's config.json",
    needs=("target_config",),
)
def end_tokens(pair: Pair) -> Iterator[Finding]:
    """The end tokens of the target's config, where it states them, are among the profile's, and there is one."""
    config, expected = pair.target_config.value, pair.profile.target.eos_tokens
    none = config.stated.get("eos_token_id") == []
    if none or not set(config.eos_tokens) <= set(expected):
        where = pair.place(config.path, "eos_token_id")
        yield differing("end tokens", where, expected=sorted(expected), found=sorted(config.eos_tokens))


@rule(
    "VOC010",
    title="the drafter's config ends at the profile's end tokens",
    why="a drafter of other end tokens was trained for another tokenizer, or its config was taken from one",
    remedy="restore config.json from the checkpoint",
    severity="warning",
    needs=("config",),
    since=2,
)
def drafter_end_tokens(pair: Pair) -> Iterator[Finding]:
    """eos_token_id of the drafter's config, where it is stated, names end tokens of the profile alone, and one."""
    config, expected = pair.config.value, pair.profile.target.eos_tokens
    if config.raw.get("eos_token_id") == [] or not all(
        type(token) is int and token in expected for token in config.eos_tokens
    ):
        where = pair.place(config.path, "eos_token_id")
        yield differing("end tokens of the drafter", where, expected=sorted(expected), found=config.eos_tokens)
