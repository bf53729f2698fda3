"""TOK: order and meaning refuse, bytes and template warn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.verify.factory import tiny_profile
from tests.verify.running import by_name, check_of, failed, refuse, roots, verified
from tests.verify.sabotage import SIDECAR, Case, edit, put, write

TOKENIZER = "target/model/tokenizer.json"
SETTINGS = "target/model/tokenizer_config.json"


def _swap(raw: dict[str, Any]) -> None:
    vocab = raw["model"]["vocab"]
    vocab["h"], vocab["i"] = vocab["i"], vocab["h"]


def _swap_added(raw: dict[str, Any]) -> None:
    first, second = raw["added_tokens"][:2]
    first["content"], second["content"] = second["content"], first["content"]


def _swap_mask(raw: dict[str, Any]) -> None:
    mask = next(t for t in raw["added_tokens"] if t["content"] == "<|mask|>")
    raw["added_tokens"][0]["content"], mask["content"] = mask["content"], raw["added_tokens"][0]["content"]


CASES = [
    Case(
        name="two tokens swapped",
        change=edit(TOKENIZER, _swap),
        depth="hash",
        roots=("TOK001",),
        says=("ids 7 and 8 are exchanged", "2 ids differ", "id 7 is 'h' | id 7 is 'i'"),
    ),
    Case(name="two added tokens swapped", change=edit(TOKENIZER, _swap_added), depth="hash", roots=("TOK001",)),
    Case(name="mask token moved", change=edit(TOKENIZER, _swap_mask), depth="lineage", roots=("TOK001",)),
    Case(
        name="count of ids in the sidecar",
        change=put(SIDECAR, "forgepack", "target", "token_ids", "count", value=40),
        depth="lineage",
        roots=("TOK007",),
    ),
    Case(
        name="normaliser", change=put(TOKENIZER, "normalizer", value={"type": "NFC"}), depth="hash", roots=("TOK001",)
    ),
    Case(
        name="one token more",
        change=put(TOKENIZER, "model", "vocab", "new", value=44),
        depth="lineage",
        roots=("TOK001", "VOC002"),
    ),
    Case(
        name="id past the rows",
        change=put(TOKENIZER, "model", "vocab", "new", value=48),
        depth="lineage",
        roots=("TOK001", "VOC002"),
    ),
    Case(
        name="two texts on one id",
        change=put(TOKENIZER, "model", "vocab", "new", value=3),
        depth="hash",
        roots=("TOK006",),
    ),
    Case(name="no vocabulary", change=put(TOKENIZER, "model", value={}), depth="hash", roots=("TOK006",)),
]


@by_name(CASES)
def test_another_tokenizer_is_refused(pair: Path, case: Case) -> None:
    """A tokenizer of equal size and other order or meaning is refused."""
    refuse(pair, case)


def test_tokenizer_written_again_warns(pair: Path) -> None:
    """The same tokenizer in other bytes warns, refuses only a strict run, and is known by its meaning."""
    raw = json.loads((pair / TOKENIZER).read_bytes())
    raw["model"]["vocab"] = dict(reversed(raw["model"]["vocab"].items()))
    write(TOKENIZER, json.dumps(raw).encode())(pair)
    report = verified(pair, "hash")
    assert ("pass", "fail") == (report.verdict, check_of(report, "TOK002").status)
    assert "fail" == verified(pair, "hash", strict=True).verdict


def test_template_and_settings_warn(pair: Path) -> None:
    """Chat template and flags have digests of their own."""
    put(SETTINGS, "chat_template", value="{{ other }}")(pair)
    report = verified(pair, "hash")
    assert ["TOK003"] == [check.id for check in report.failed("warning")]
    put(SETTINGS, "add_bos_token", value=True)(pair)
    assert ["TOK003", "TOK004"] == [check.id for check in verified(pair, "hash").failed("warning")]
    assert set() == failed(verified(pair, "hash"))


def test_the_profile_pins_a_tokenizer(pair: Path) -> None:
    """The profile's digest refuses another tokenizer even without a binding."""
    from tests.verify.factory import PROFILE

    target = {**PROFILE["target"], "tokenizer_sha256": "0" * 64}
    report = verified(pair, "hash", profile=tiny_profile(target=target))
    assert "TOK005" in roots(report)
