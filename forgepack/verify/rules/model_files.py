"""TOK, the files beside tokenizer.json: they state token ids, too, and must state the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from forgepack.artifacts.model_files import (
    Disagreement,
    flag_disagreements,
    generation_disagreements,
    range_disagreements,
    role_disagreements,
    special_disagreements,
    template_disagreements,
    token_disagreements,
    token_role_disagreements,
)
from forgepack.artifacts.tokenizer import TOKENIZER_FILE
from forgepack.verify.checks.faults import reported
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import row, rule

_REMEDY = "restore the file from the target's release, or remove it where the release has none"


def _told(pair: Pair, found: Iterable[Disagreement], other: str = TOKENIZER_FILE) -> Iterator[Finding]:
    root = pair.sources.target.model
    for one in found:
        message = f"{one.file} and {other} disagree" if other else ""
        where = pair.place(root / one.file, one.path)
        yield differing(one.file, where, expected=one.expected, found=one.found, message=message)


@rule(
    "TOK020",
    title="every token id that a file of model/ states has a row",
    why="an id past the last row reads beyond the embedding",
    remedy=_REMEDY,
    depth="hash",
    needs=("model_files",),
    codes=("model-file",),
    since=2,
    closes="added tokens beyond the vocabulary passed in files beside the tokenizer",
)
def ids_in_range(pair: Pair) -> Iterator[Finding]:
    """Ids of added_tokens.json, added_tokens_decoder and vocab.json have a row, and merges.txt has merges."""
    yield from reported(pair, "TOK020")
    if pair.model_files.available:
        yield from _told(pair, range_disagreements(pair.model_files.value, pair.profile.geometry.vocab), other="")


@rule(
    "TOK024",
    title="generation_config.json ends, starts and pads with the pair's tokens",
    why="a server takes its end tokens from this file: another one stops too early, or never",
    remedy=_REMEDY,
    depth="hash",
    needs=("model_files", "target_config"),
    after=("VOC005",),
    since=2,
    closes="end tokens of generation_config.json that no config names passed",
)
def generation(pair: Pair) -> Iterator[Finding]:
    """End tokens are among the profile's; other ids decode, and are config.json's where it states them."""
    profile, config = pair.profile, pair.target_config.value
    ids = generation_disagreements(
        pair.model_files.value,
        ends=profile.target.eos_tokens,
        used=profile.target.used_tokens,
        config=config.stated,
    )
    return _told(pair, ids, other="")


@rule(
    "CTR100",
    title="files of model/ that name an end or mask token name the pair's",
    why="a server that takes its end from the tokenizer's settings runs past the pair's end tokens, or stops early",
    remedy=_REMEDY,
    depth="lineage",
    needs=("model_files", "tokenizer"),
    after=("TOK001", "TOK004", "TOK022"),
    since=2,
    closes="a tokenizer_config.json whose end or mask token is another token passed",
)
def token_roles(pair: Pair) -> Iterator[Finding]:
    """eos_token is the text of one of the profile's end tokens, mask_token that of its mask, where stated."""
    pin = pair.profile.target
    found = token_role_disagreements(
        pair.model_files.value, pair.tokenizer.value, ends=pin.eos_tokens, mask=pin.mask_token_text
    )
    return _told(pair, found, other="")


ROWS = (
    row(
        "TOK021",
        lambda pair: _told(pair, token_disagreements(pair.model_files.value, pair.tokenizer.value)),
        demand=("added_tokens.json, added_tokens_decoder, vocab.json and merges.txt say what tokenizer.json says."),
        title="added tokens, vocabulary and merges are tokenizer.json's",
        why="tools that read the other file give the text other ids, and target and drafter other tokens",
        remedy=_REMEDY,
        depth="lineage",
        needs=("model_files", "tokenizer"),
        after=("TOK001", "TOK020"),
        since=2,
        closes="a vocab.json or merges.txt of another tokenizer passed",
    ),
    row(
        "TOK022",
        lambda pair: _told(pair, special_disagreements(pair.model_files.value, pair.tokenizer.value)),
        demand=(
            "Each token of special_tokens_map.json and each role of tokenizer_config.json is a token of "
            "tokenizer.json."
        ),
        title="every special token is a token",
        why="a special token that the vocabulary lacks is split into pieces, or added with an id of its own",
        remedy=_REMEDY,
        depth="lineage",
        needs=("model_files", "tokenizer"),
        after=("TOK001", "TOK021"),
        since=2,
        closes="special tokens that the vocabulary lacks passed",
    ),
    row(
        "TOK023",
        lambda pair: _told(pair, role_disagreements(pair.model_files.value), other="tokenizer_config.json"),
        demand="Where both name a token for the end, padding or another role it is the same.",
        title="special_tokens_map.json and tokenizer_config.json give each role to one token",
        why="which of the two files counts depends on the tool that reads them",
        remedy=_REMEDY,
        severity="warning",
        depth="hash",
        needs=("model_files",),
        after=("TOK022",),
        since=2,
    ),
    row(
        "TOK025",
        lambda pair: _told(pair, template_disagreements(pair.model_files.value), other=""),
        demand=(
            "chat_template.jinja, chat_template.json and tokenizer_config.json, those that state a template, "
            "state one."
        ),
        title="the chat template is the same text in every place",
        why="a tool takes the template of one place or of another: the drafter was trained on one",
        remedy=_REMEDY,
        severity="warning",
        depth="hash",
        needs=("model_files",),
        since=2,
    ),
    row(
        "CTR101",
        lambda pair: _told(pair, flag_disagreements(pair.model_files.value, pair.tokenizer.value)),
        demand=(
            "special, normalized, lstrip, rstrip and single_word agree where both files state them of one token."
        ),
        title="added tokens are treated alike in tokenizer.json and tokenizer_config.json",
        why="a token that one file strips or skips and the other keeps gives one text two lists of ids",
        remedy=_REMEDY,
        severity="warning",
        depth="lineage",
        needs=("model_files", "tokenizer"),
        after=("TOK001", "TOK004", "TOK021"),
        since=2,
    ),
)
