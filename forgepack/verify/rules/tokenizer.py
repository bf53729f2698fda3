"""TOK: the target's tokenizer is the one that the pair was bound to, by meaning first and by bytes second.

Sizes agree when two tokens change places; then head, codebooks and embedding name other tokens than the text does.
"""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.facts.target import meaning_facts, settings_facts, template_facts, tokenizer_bytes_facts
from forgepack.json_values import equal_json
from forgepack.verify.checks.binding import against, bound, compared
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.inputs.tokens import find_moved
from forgepack.verify.policy.rule import row, rule

_REMEDY = "restore tokenizer.json from the target's release"


@rule(
    "TOK001",
    title="the tokenizer means what it meant when the pair was bound",
    fails="the tokenizer does NOT mean what it meant when the pair was bound",
    why="a re-ordered vocabulary has the same size: every token's text, score and draft becomes another's",
    remedy=_REMEDY,
    depth="hash",
    needs=("binding", "tokenizer_files"),
)
def meaning(pair: Pair) -> Iterator[Finding]:
    """tokenizer.json has the SHA-256 that the sidecar states, or else its ids, texts and merges mean the same."""
    if not _rewritten(pair):
        return
    tokenizer = pair.tokenizer.value
    where = pair.place(tokenizer.path)
    path = "target.tokenizer.semantic_sha256"
    for finding in against(pair, path, tokenizer.semantic_sha256, where, subject="meaning of the tokenizer"):
        moved = find_moved(tokenizer.tokens, bound(pair, "target.token_ids"))
        if moved is None:
            yield finding
        else:
            expected, found = moved.expected or finding.expected, moved.found or finding.found
            yield differing(finding.subject, where, expected=expected, found=found, message=moved.message)


def _rewritten(pair: Pair) -> bool:
    """Whether tokenizer.json has other bytes than the binding states: only then its meaning must be looked at."""
    return not equal_json(pair.tokenizer_files.value.sha256, bound(pair, "target.tokenizer.sha256"))


@rule(
    "TOK002",
    title="tokenizer.json was not written again",
    fails="tokenizer.json was written again",
    why="a library that saves it changes the bytes and not the meaning: legal, but no longer provable by file",
    remedy=_REMEDY,
    severity="warning",
    depth="hash",
    needs=("binding", "tokenizer_files"),
    after=("TOK001",),
)
def rewritten(pair: Pair) -> Iterator[Finding]:
    """tokenizer.json has the SHA-256 that the sidecar states."""
    if not _rewritten(pair):
        return
    same_meaning = pair.tokenizer.value.semantic_sha256 == bound(pair, "target.tokenizer.semantic_sha256")
    for finding in compared(pair, "target", tokenizer_bytes_facts(pair.tokenizer_files.value)):
        message = "bytes differ, the meaning is the same: written again" if same_meaning else finding.message
        yield differing("bytes", finding.where, expected=finding.expected, found=finding.found, message=message)


@rule(
    "TOK005",
    title="the tokenizer is the one that the profile pins",
    why="without a binding, only the profile's digest shows that a vocabulary was re-ordered",
    remedy=_REMEDY,
    depth="hash",
    needs=("tokenizer_files",),
    after=("TOK001", "TOK002"),
)
def pinned(pair: Pair) -> Iterator[Finding]:
    """tokenizer.json has the profile's SHA-256, where it pins one, or the meaning that the sidecar binds."""
    tokenizer, expected = pair.tokenizer_files.value, pair.profile.target.tokenizer_sha256
    if expected is None or tokenizer.sha256 == expected:
        return
    by_meaning = pair.binding.available and bound(pair, "target.tokenizer.sha256") == expected
    if by_meaning and pair.tokenizer.value.semantic_sha256 == bound(pair, "target.tokenizer.semantic_sha256"):
        return  # written again: TOK002 reports it
    yield differing("tokenizer.json", pair.place(tokenizer.path), expected=expected, found=tokenizer.sha256)


ROWS = (
    row(
        "TOK007",
        lambda pair: compared(pair, "target", meaning_facts(pair.tokenizer.value)),
        demand="Digest of meaning, number of ids and digests of their runs are those that the sidecar states.",
        title="the binding's record of the tokenizer's meaning is the tokenizer's",
        why="it separates a file that was written again from another one, and names the tokens that moved",
        remedy="emit the package again",
        depth="lineage",
        needs=("binding", "tokenizer"),
        after=("TOK001",),
    ),
    row(
        "TOK003",
        lambda pair: compared(pair, "target", template_facts(pair.tokenizer_files.value)),
        demand="The chat template of tokenizer_config.json has the digest that the sidecar states.",
        title="the chat template is the one that the pair was bound to",
        why="a drafter trained on one template drafts worse on another, with thinking on or off for instance",
        remedy="restore tokenizer_config.json from the target's release",
        severity="warning",
        depth="hash",
        needs=("binding", "tokenizer_files"),
    ),
    row(
        "TOK004",
        lambda pair: compared(pair, "target", settings_facts(pair.tokenizer_files.value)),
        demand="The rest of tokenizer_config.json has the digest that the sidecar states.",
        title="the tokenizer's settings are those that the pair was bound to",
        why="flags such as add_bos_token change the text that the target and the drafter see",
        remedy="restore tokenizer_config.json from the target's release",
        severity="warning",
        depth="hash",
        needs=("binding", "tokenizer_files"),
    ),
    reported_row(
        "TOK006",
        demand="Every token of tokenizer.json has one text and one id.",
        title="tokenizer.json is a tokenizer",
        why="a token without an id, two texts on one id or no vocabulary leave token ids without a meaning",
        remedy=_REMEDY,
        depth="hash",
        codes=("tokenizer",),
    ),
)
