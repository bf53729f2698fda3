"""FMT and PATH: damage is told apart by kind, and unsafe names, links and special files never cross."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.verify.factory import EXPORT
from tests.verify.running import by_name, check_of, explain_all, failed, refuse, roots, told, verified
from tests.verify.sabotage import (
    CONFIG,
    HEAD,
    MANIFEST,
    SIDECAR,
    TARGET_CONFIG,
    Case,
    both,
    bytes_of,
    fifo,
    header,
    link,
    put,
    remove,
    write,
)

EMBEDDING = "target/model/embed_tokens_fp16.npy"
PROGRAM = "drafter/dflash2_lut4_gptq.aimodel/main.mlirb"
SELECTOR = "drafter/selector.safetensors"
CODEBOOK = "candidate_selector.predecessor_codebook"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 123456\n"


def _twice(raw: dict[str, Any]) -> bytes:
    entry = json.dumps(raw[CODEBOOK])
    return json.dumps(raw).replace("{", f'{{"{CODEBOOK}": {entry}, ', 1).encode()


def _two_forms(root: Path) -> None:
    """Write one name in two Unicode forms: one file on macOS, two here."""
    for name in ("caf\u00e9.bin", "cafe\u0301.bin"):
        (root / "drafter" / name).write_bytes(b"x")


def _move(raw: dict[str, Any], by: int) -> None:
    last = max(raw.values(), key=lambda entry: entry["data_offsets"][0])
    last["data_offsets"] = [n + by for n in last["data_offsets"]]


CASES = [
    Case(name="json syntax", change=write(SIDECAR, b"{"), roots=("FMT001",)),
    Case(name="json of another type", change=write(CONFIG, b"[]"), roots=("FMT001",), says=("list",)),
    Case(
        name="duplicate key",
        change=bytes_of(SIDECAR, lambda b: b'{"W": 1,' + b[1:]),
        roots=("FMT002",),
        says=("'W'",),
    ),
    Case(name="NaN", change=bytes_of(MANIFEST, lambda b: b'{"x": NaN,' + b[1:]), roots=("FMT003",)),
    Case(name="overflow", change=bytes_of(TARGET_CONFIG, lambda b: b'{"x": 1e400,' + b[1:]), roots=("FMT003",)),
    Case(name="byte-order mark", change=bytes_of(CONFIG, lambda b: b"\xef\xbb\xbf" + b), roots=("FMT004",)),
    Case(name="UTF-16", change=bytes_of(CONFIG, lambda b: b.decode().encode("utf-16")), roots=("FMT004",)),
    Case(name="latin-1", change=bytes_of(CONFIG, lambda b: b'{"x": "\xe9",' + b[1:]), roots=("FMT004",)),
    Case(name="half a surrogate", change=bytes_of(SIDECAR, lambda b: b'{"x": "\\ud800",' + b[1:]), roots=("FMT004",)),
    Case(name="nesting", change=write(SIDECAR, b"[" * 5000 + b"]" * 5000), roots=("FMT005",)),
    Case(name="trailing data", change=bytes_of(SIDECAR, lambda b: b + b"{}"), roots=("FMT001",)),
    Case(name="LFS pointer", change=write(SELECTOR, POINTER), roots=("FMT010",), says=("ab" * 32,)),
    Case(name="LFS pointer as head", change=write(HEAD, POINTER), roots=("FMT010",)),
    Case(
        name="LFS pointer as embedding",
        change=write(EMBEDDING, POINTER),
        roots=("FMT010",),
    ),
    Case(
        name="LFS pointer as program",
        change=write(PROGRAM, POINTER),
        roots=("FMT010",),
    ),
    Case(
        name="HTML", change=write(SELECTOR, b"<!DOCTYPE html><html>login</html>"), roots=("FMT011",), says=("HTML",)
    ),
    Case(name="zip", change=write(SELECTOR, b"PK\x03\x04" + b"x" * 50), roots=("FMT011",), says=("zip",)),
    Case(name="pickle", change=write(SELECTOR, b"\x80\x02" + b"x" * 50), roots=("FMT011",), says=("pickle",)),
    Case(name="GGUF", change=write(SELECTOR, b"GGUF" + b"x" * 50), roots=("FMT011",), says=("GGUF",)),
    Case(name="last byte cut", change=bytes_of(SELECTOR, lambda b: b[:-1]), roots=("FMT012",), says=("short by 1 ",)),
    Case(name="cut in the header", change=bytes_of(SELECTOR, lambda b: b[:40]), roots=("FMT012",)),
    Case(name="cut to seven bytes", change=bytes_of(SELECTOR, lambda b: b[:7]), roots=("FMT012",)),
    Case(name="empty", change=write(SELECTOR, b""), roots=("FMT012",)),
    Case(
        name="embedding cut",
        change=bytes_of(EMBEDDING, lambda b: b[:-2]),
        roots=("FMT012",),
    ),
    Case(
        name="one byte more",
        change=bytes_of(SELECTOR, lambda b: b + b"x"),
        roots=("FMT013",),
        says=("1 bytes follow",),
    ),
    Case(name="no header object", change=write(SELECTOR, b"\x08\0\0\0\0\0\0\0[1,2,3] "), roots=("FMT014",)),
    Case(name="unknown dtype", change=header(SELECTOR, lambda h: h[CODEBOOK].update(dtype="Q4")), roots=("FMT014",)),
    Case(
        name="offsets against shape",
        change=header(SELECTOR, lambda h: h[CODEBOOK].update(shape=[1, 4])),
        roots=("FMT014",),
    ),
    Case(name="tensor twice", change=header(SELECTOR, _twice), roots=("FMT002",), says=(CODEBOOK,)),
    Case(name="gap", change=header(SELECTOR, lambda h: _move(h, 4)), roots=("FMT012", "FMT015"), says=("gap of 4",)),
    Case(
        name="overlap",
        change=header(SELECTOR, lambda h: _move(h, -4)),
        roots=("FMT013", "FMT015"),
        says=("overlap of 4",),
    ),
    Case(
        name="embedding of another form",
        change=bytes_of(EMBEDDING, lambda b: b.replace(b"<f2", b"<i2")),
        roots=("FMT016",),
    ),
    *(
        Case(name=f"path {value!r}", change=put(MANIFEST, "head", "file", value=value), roots=("PATH001",))
        for value in (
            *("../x", "/abs", "C:\\x", "C:x", "\\\\host\\s", "a/../../b", "a\\..\\b", "a//b", "a/"),
            *("", ".", "..", "a\x00b", "con.aimodel", "nul", "a/COM1", "x.", "x ", "a\x1bb", "a:b"),
        )
    ),
    Case(name="path escape", change=put(MANIFEST, "head", "file", value="../../etc/x"), roots=("PATH001",)),
    Case(name="absolute path", change=put(MANIFEST, "chunks", 0, "file", value="/etc/x"), roots=("PATH001",)),
    Case(name="drive path", change=put(MANIFEST, "head", "file", value="C:x"), roots=("PATH001",)),
    Case(
        name="compiled path escapes", change=put(MANIFEST, "head", "compiled", value="a/../../b"), roots=("PATH001",)
    ),
    Case(name="link", change=link(CONFIG, "/etc/hostname"), roots=("PATH002",), says=("/etc/hostname",)),
    Case(name="dangling link", change=link(CONFIG, "nowhere"), roots=("PATH002",)),
    Case(name="link loop", change=link(CONFIG, "config.json"), roots=("PATH002",)),
    Case(name="pipe", change=fifo(SELECTOR), roots=("PATH003",)),
    Case(name="pipe beside", change=fifo("drafter/pipe"), roots=("PATH003", "PKG010")),
    Case(name="folder in place", change=both(remove(CONFIG), lambda r: (r / CONFIG).mkdir()), roots=("PATH003",)),
    Case(name="case collision of a Unicode form", change=_two_forms, roots=("PATH004", "PKG010")),
    Case(name="case collision", change=write("drafter/License", b"x"), roots=("PATH004", "PKG010")),
    Case(name="a known name in another case", change=write("target/model/Vocab.json", b"{}"), roots=("PATH004",)),
    Case(
        name="an index in another case",
        change=write(f"target/export/{EXPORT}/Model.safetensors.index.json", b'{"weight_map": {}}'),
        roots=("PATH004",),
    ),
    Case(name="reserved name", change=write("drafter/con.md", b"x"), roots=("PATH005",)),
    Case(name="control in a name", change=write("drafter/a\x1b[2J.md", b"x"), roots=("PATH005",)),
    Case(name="mark in a name", change=write("drafter/a\u202eb.md", b"x"), roots=("PATH005",)),
]


@by_name(CASES)
def test_damage_is_named_by_its_kind(pair: Path, case: Case) -> None:
    """Each kind of damage has its own rule; what depends on the file is not evaluated because of it."""
    refuse(pair, case)


def test_lost_checks_name_their_cause(pair: Path) -> None:
    """Rules that need a damaged file are not evaluated, required, and point at the rule that tells why."""
    write(SELECTOR, POINTER)(pair)
    check = check_of(verified(pair), "WGT001")
    assert ("not-evaluated", True, "FMT010") == (check.status, check.required, check.cause)
    assert check.reason.startswith("drafter/selector.safetensors: ")


def test_all_faults_at_once(pair: Path) -> None:
    """Several faults are all told in one run."""
    write(SELECTOR, POINTER)(pair)
    write(MANIFEST, b"{")(pair)
    put(CONFIG, "dflash_config", "target_layer_ids", value=[2, 4, 7])(pair)
    remove("drafter/LICENSE")(pair)
    assert ["FMT001", "FMT010", "LIC001", "TAP003"] == roots(verified(pair))


def test_socket_is_refused(pair: Path) -> None:
    """A socket in the folder is a special file."""
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        try:
            import os

            os.chdir(pair / "drafter")  # the path of a socket is short
            server.bind("s.md")
        finally:
            os.chdir(here)
        assert {"PATH003"} == failed(verified(pair))


def test_junk_is_a_warning(pair: Path) -> None:
    """Files that operating systems leave behind warn, and refuse only a strict run."""
    for name in (".DS_Store", "._model.safetensors", "Thumbs.db"):
        write(f"drafter/{name}", b"x")(pair)
    report = verified(pair)
    assert "pass" == report.verdict
    assert 3 == check_of(report, "PATH006").count
    assert "fail" == verified(pair, strict=True).verdict


def test_links_of_a_hub_cache_pass_when_allowed(pair: Path) -> None:
    """Files that are links into a store of blobs are read through when links are allowed, and refused otherwise."""
    blobs = pair / "blobs"
    blobs.mkdir()
    for root in ("drafter", "target"):
        for n, path in enumerate(sorted((pair / root).rglob("*"))):
            if path.is_file():
                blob = blobs / f"{root}{n}"
                path.rename(blob)
                path.symlink_to(blob)
    refused = verified(pair, "hash")
    assert "PATH002" in roots(refused)
    allowed = verified(pair, "hash", named={"allow_links": True})
    assert "pass" == allowed.verdict, explain_all(allowed)


@pytest.mark.parametrize("target", ["nowhere", "..", "/dev/null"])
def test_allowed_links_must_lead_to_files(pair: Path, target: str) -> None:
    """Even where links are allowed, one that leads to no regular file is refused."""
    link("drafter/extra.md", target)(pair)
    report = verified(pair, named={"allow_links": True})
    assert ["PATH002"] == roots(report)
    assert "which is not a file" in told(report, "PATH002")
