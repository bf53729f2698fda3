"""A document that can't be read is one fault: what others say because of it is never false."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.verify.running import explain_all, roots, verified
from tests.verify.sabotage import CONFIG, MANIFEST, SIDECAR, TARGET_CONFIG

DOCUMENTS = {
    "manifest": MANIFEST,
    "target's config": TARGET_CONFIG,
    "drafter's config": CONFIG,
    "sidecar": SIDECAR,
    "source record": "drafter/DFLASH2_SOURCE.json",
    "tokenizer": "target/model/tokenizer.json",
    "tokenizer's config": "target/model/tokenizer_config.json",
    "asset's metadata": "drafter/dflash2_lut4_gptq.aimodel/metadata.json",
    "chunk's metadata": "target/coreai/chunk_L00-03.aimodel/metadata.json",
    "lock": "checkpoint/checkpoint.lock.json",
    "report": "quant/report.json",
}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12\n"
WAYS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "FMT001"),
    "cut": (lambda data: data[: len(data) // 2], "FMT001"),
    "a page": (lambda data: b"<!doctype html><html></html>", "FMT001"),
    "a list": (lambda data: b"[" + data + b"]", "FMT001"),
    "data after it": (lambda data: data + b"{}", "FMT001"),
    "a key twice": (lambda data: b'{"a": 1, ' + b'"a": 2, ' + data.lstrip()[1:], "FMT002"),
    "a byte-order mark": (lambda data: b"\xef\xbb\xbf" + data, "FMT004"),
    "UTF-16": (lambda data: data.decode().encode("utf-16"), "FMT004"),
    "NaN": (lambda data: b'{"x": NaN, ' + data.lstrip()[1:], "FMT003"),
    "a pointer": (lambda data: POINTER, "FMT010"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_is_the_only_cause(pair: Path, name: str, way: str) -> None:
    """The rule of its damage is the one cause; what follows is folded below it or not evaluated because of it."""
    change, rule = WAYS[way]
    path = pair / DOCUMENTS[name]
    path.write_bytes(change(path.read_bytes()))
    report = verified(pair, "hash", sources=True)
    assert [rule] == roots(report), explain_all(report)
    assert [] == [check.id for check in report.failed("warning") if check.cause is None], explain_all(report)
    assert not any("no file" in f.found for check in report.checks for f in check.findings)


@pytest.mark.parametrize(
    ("key", "value"), [("T", 8.0), ("T", "8"), ("export", None), ("taps", [1.0]), ("chunks", [5]), ("head", {})]
)
def test_a_manifest_of_another_type_names_its_field(pair: Path, key: str, value: object) -> None:
    """One field of another type: CTR016 names it, and no file of the target is told as missing."""
    path = pair / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_bytes()), key: value}))
    report = verified(pair, "hash", sources=True)
    assert ["CTR016"] == roots(report), explain_all(report)
    assert not any("no file" in f.found for check in report.checks for f in check.findings)
