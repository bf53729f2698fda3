"""Tokenizers by bytes and by meaning."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from forgepack.artifacts.tokenizer import first_difference, read_tokenizer
from forgepack.errors import CorruptError

BASE: dict[str, Any] = {
    "version": "1.0",
    "added_tokens": [
        {"id": 4, "content": "<eos>", "special": True},
        {"id": 5, "content": "<mask>", "special": True},
    ],
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel"},
    "post_processor": None,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": [["a", "b"]]},
}


def write(folder: Path, raw: dict[str, Any], **settings: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(raw))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def changed(**changes: Any) -> dict[str, Any]:
    raw = copy.deepcopy(BASE)
    for path, value in changes.items():
        node = raw
        *outer, last = path.split("__")
        for key in outer:
            node = node[key]
        node[last] = value
    return raw


def test_size_counts_added_tokens(tmp_path: Path) -> None:
    """Ids of the vocabulary and of added tokens all count; texts are found by id."""
    tokenizer = read_tokenizer(write(tmp_path, BASE))
    assert (6, "<mask>", "ab") == (tokenizer.size, tokenizer.tokens[5], tokenizer.tokens[3])


def test_reserialised_is_equal_in_meaning_only(tmp_path: Path) -> None:
    """Merges as strings and another key order change the bytes, never the meaning."""
    raw = dict(reversed(changed(model__merges=["a b"]).items()))
    one, two = read_tokenizer(write(tmp_path / "1", BASE)), read_tokenizer(write(tmp_path / "2", raw))
    assert (True, False) == (one.semantic_sha256 == two.semantic_sha256, one.sha256 == two.sha256)


MEANINGS: dict[str, dict[str, Any]] = {
    "two ids swapped": changed(model__vocab={"a": 0, "c": 1, "b": 2, "ab": 3}),
    "two added tokens swapped": changed(
        added_tokens=[{"id": 5, "content": "<eos>", "special": True}, {"id": 4, "content": "<mask>", "special": True}]
    ),
    "other merge": changed(model__merges=[["b", "a"]]),
    "normalizer": changed(normalizer={"type": "NFC"}),
    "pre-tokenizer": changed(pre_tokenizer={"type": "Whitespace"}),
    "added token's flag": changed(
        added_tokens=[{**BASE["added_tokens"][0], "special": False}, BASE["added_tokens"][1]]
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_change_of_meaning_changes_the_semantic_digest(tmp_path: Path, name: str) -> None:
    """Order, merges, pipeline and flags are all part of what the tokenizer means."""
    one = read_tokenizer(write(tmp_path / "1", BASE))
    assert one.semantic_sha256 != read_tokenizer(write(tmp_path / "2", MEANINGS[name])).semantic_sha256


def test_first_difference_names_id_texts_and_count(tmp_path: Path) -> None:
    """A re-ordered tokenizer of equal size is told by its first differing id."""
    one = read_tokenizer(write(tmp_path / "1", BASE))
    two = read_tokenizer(write(tmp_path / "2", MEANINGS["two ids swapped"]))
    assert (1, "b", "c", 2) == first_difference(one, two)
    assert first_difference(one, one) is None


def test_chat_template_has_its_own_digest(tmp_path: Path) -> None:
    """Changing only the template leaves meaning and settings digests as they were."""
    one = read_tokenizer(write(tmp_path / "1", BASE, chat_template="x", bos=True))
    two = read_tokenizer(write(tmp_path / "2", BASE, chat_template="y", bos=True))
    assert (True, True, False) == (
        one.semantic_sha256 == two.semantic_sha256,
        one.files.settings_sha256 == two.files.settings_sha256,
        one.files.template_sha256 == two.files.template_sha256,
    )


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"model": {}},
        {"model": []},
        changed(model__vocab={"a": "0"}),
        changed(model__vocab={"a": -1}),
        changed(model__vocab={"a": True}),
        changed(model__vocab={"a": 1 << 24}),
        changed(model__vocab={"a": 0, "b": 0}),
        changed(added_tokens={"id": 4}),
        changed(added_tokens=[{"id": 0, "content": "other"}]),
        changed(added_tokens=["x"]),
        changed(model__merges=7),
        changed(model__merges=[7]),
    ],
)
def test_ill_formed_is_corrupt(tmp_path: Path, raw: dict[str, Any]) -> None:
    """A tokenizer without vocabulary, with ill-typed ids or with two texts for one id is refused."""
    with pytest.raises(CorruptError):
        read_tokenizer(write(tmp_path, raw))
