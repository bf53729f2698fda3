"""Records compare leaf by leaf, know an asset's metadata by content, and list every file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from forgepack.errors import CorruptError
from forgepack.facts.fact import ABSENT, Fact, differences, record_of
from forgepack.facts.files import file_record, folder_record


def test_differences_name_the_leaf() -> None:
    """Each differing leaf is told by its path with both values; missing keys and other types differ."""
    expected = {"a": {"b": 1, "c": [1, 2]}, "d": 1, "e": "x"}
    found = {"a": {"b": 2, "c": [1, 2]}, "d": 1.0, "f": "y"}
    assert list(differences(expected, found)) == [
        ("a.b", 1, 2),
        ("d", 1, 1.0),
        ("e", "x", ABSENT),
        ("f", ABSENT, "y"),
    ]
    assert list(differences(expected, expected)) == []


def test_what_is_absent_equals_no_value() -> None:
    """A missing key differs from null and from the text that reports print for it."""
    values: list[object] = [None, "nothing", {}, []]
    for value in values:
        assert list(differences({}, {"a": value})) == [("a", ABSENT, value)]
        assert list(differences({"a": value}, {})) == [("a", value, ABSENT)]


def test_facts_make_a_nested_record(tmp_path: Path) -> None:
    """Dotted paths nest; the value of a fact stays whole, whatever its keys hold."""
    facts = [
        Fact(path=path, value=value, file=tmp_path) for path, value in (("a.b", 1), ("a.c", {"x.y": 2}), ("d", None))
    ]
    assert record_of(facts) == {"a": {"b": 1, "c": {"x.y": 2}}, "d": None}


def test_an_assets_metadata_is_known_by_its_content(tmp_path: Path) -> None:
    """Another date, order or layout of metadata.json is the same content; another author is not."""
    folder = tmp_path / "a.aimodel"
    folder.mkdir()
    path = folder / "metadata.json"
    digests = []
    for text in (
        '{"author": "a", "creationDate": "20260101T000000Z"}',
        '{\n "creationDate" : "20270101T000000Z",\n "author" : "a"\n}',
        '{"author": "b", "creationDate": "20260101T000000Z"}',
    ):
        path.write_text(text)
        digests.append(file_record(path)["content_sha256"])
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]
    (tmp_path / "metadata.json").write_text(json.dumps({}))
    assert set(file_record(tmp_path / "metadata.json")) == {"bytes", "sha256"}


def test_a_folder_lists_its_files_without_junk(tmp_path: Path) -> None:
    """Files of all depths are listed with POSIX paths under the prefix; file managers' junk is left out."""
    (tmp_path / "deep").mkdir()
    for name in ("a.bin", "deep/b.bin", ".DS_Store", "deep/._b.bin"):
        (tmp_path / name).write_bytes(b"x")
    assert list(folder_record(tmp_path, "export")) == ["export/a.bin", "export/deep/b.bin"]


def test_a_fifo_is_refused_not_read(tmp_path: Path) -> None:
    """A special file in a target is refused at once instead of blocking."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CorruptError, match="regular"):
        folder_record(tmp_path, "export")
