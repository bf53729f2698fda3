"""Inputs made to exhaust or to block: each ends in a documented exit code, in bounded memory."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_verify import PROJECT, arguments
from tests.verify.sabotage import CONFIG, HEAD, MANIFEST, SIDECAR, Change, fifo, link, write

SELECTOR = "drafter/selector.safetensors"
EMBEDDING = "target/model/embed_tokens_fp16.npy"
TOKENIZER = "target/model/tokenizer.json"
LOCK = "checkpoint/checkpoint.lock.json"
REPORT = "quant/report.json"
# Address space: the libraries' own, and what a file at its limit can make of it.
MEMORY = 6 << 30
SECONDS = 240


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def bounded(args: list[str]) -> int:
    """Run the command in a process with little memory; a run that does not end fails the test."""
    command = [sys.executable, "-m", "forgepack", *args]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        command, check=False, capture_output=True, env=environment, preexec_fn=_limit, timeout=SECONDS
    )
    assert b"Traceback" not in done.stderr, done.stderr[-2000:]
    return done.returncode


def declared(length: int) -> Change:
    """Return a safetensors file whose header says that it is ``length`` bytes long."""
    return write(SELECTOR, struct.pack("<Q", length) + b"{}")


def sparse(path: str, head: bytes, size: int) -> Change:
    """Return a file that starts with ``head`` and is otherwise a hole of zeros."""

    def apply(root: Path) -> None:
        (root / path).write_bytes(head)
        os.truncate(root / path, size)

    return apply


def tiny_tensors(count: int) -> Change:
    """Return a safetensors file of many tensors of one byte."""

    def apply(root: Path) -> None:
        entries = (f'"t{n}":{{"dtype":"U8","shape":[1],"data_offsets":[{n},{n + 1}]}}' for n in range(count))
        text = ("{" + ",".join(entries) + "}").encode()
        (root / SELECTOR).write_bytes(struct.pack("<Q", len(text)) + text + bytes(count))

    return apply


INPUTS: dict[str, tuple[Change, int]] = {
    "header of 2^63 bytes": (declared(1 << 63), 1),
    "header of 99 MB that is not there": (declared(99_000_000), 1),
    "header of 99 MB of zeros": (sparse(SELECTOR, struct.pack("<Q", 99_000_000) + b"{", 99_000_100), 4),
    "a million tensors": (tiny_tensors(1_000_000), 4),
    "more tensors than the limit": (tiny_tensors(70_000), 4),
    "nested lists": (write(SIDECAR, b"[" * 500_000), 1),
    "nested objects": (write(CONFIG, b'{"a":' * 100_000 + b"1" + b"}" * 100_000), 1),
    "nested header": (write(SELECTOR, struct.pack("<Q", 200_002) + b'{"' + b"[" * 200_000), 1),
    "a number of a million digits": (write(CONFIG, b'{"a": ' + b"9" * 900_000 + b"}"), 1),
    "a sidecar of a gigabyte": (sparse(SIDECAR, b"{", 1 << 30), 4),
    "a manifest of a gigabyte": (sparse(MANIFEST, b"{", 1 << 30), 4),
    "a tokenizer of a gigabyte": (sparse(TOKENIZER, b"{", 1 << 30), 4),
    "a licence of a gigabyte": (sparse("drafter/LICENSE", b"x", 1 << 30), 4),
    "an array with an endless header": (write(EMBEDDING, b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65_535), 1),
    "a million axes": (write(EMBEDDING, b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"1," * 500_000), 1),
    "links in a circle": (link("drafter/loop", "loop"), 1),
    "a folder that links to itself": (link("drafter/inner.md", "."), 1),
}


@pytest.mark.parametrize("name", INPUTS)
def test_exhausting_input_ends_in_its_code(pair: Path, name: str, *, whole: bool) -> None:
    """What is over a limit is exit 4, what is no file of its kind is exit 1; memory stays bounded."""
    if "gigabyte" in name and not whole and random.randrange(4):
        pytest.skip("a gigabyte that was never read takes seconds: one in four runs, each with --whole")
    change, code = INPUTS[name]
    change(pair)
    assert code == bounded(arguments(pair, "hash"))


@pytest.mark.parametrize("file", [CONFIG, SIDECAR, SELECTOR, "drafter/LICENSE", MANIFEST, HEAD, EMBEDDING, TOKENIZER])
def test_a_pipe_is_never_waited_for(pair: Path, file: str) -> None:
    """A pipe in place of any file is refused without opening it."""
    fifo(file)(pair)
    assert 1 == bounded(arguments(pair, "hash"))


@pytest.mark.parametrize("file", [LOCK, REPORT, "checkpoint/model.safetensors"])
def test_a_pipe_among_the_sources(pair: Path, file: str) -> None:
    """The sources' files are judged alike."""
    fifo(file)(pair)
    named = ["--checkpoint", str(pair / "checkpoint"), "--quant", str(pair / "quant")]
    assert 1 == bounded(arguments(pair, "hash", *named))


def test_a_pipe_as_profile(pair: Path) -> None:
    """A profile that is a pipe is a matter of usage."""
    fifo("profile.json")(pair)
    assert 2 == bounded(arguments(pair, "header"))


def _bomb() -> bytes:
    """Return an archive whose member inflates to a gigabyte that its header does not declare."""
    archive = io.BytesIO()
    header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.ljust(117) + b"\n"
    with (
        zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out,
        out.open("tokens_0.npy", "w", force_zip64=True) as member,
    ):
        member.write(head)
        for _ in range(64):
            member.write(bytes(16 << 20))
    return archive.getvalue()


def _many_members() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for number in range(30_000):
            out.writestr(f"tokens_{number}.npy", b"")
    return archive.getvalue()


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "a bomb": _bomb,
    "30,000 members": _many_members,
    "another kind": lambda: json.dumps({"a": 1}).encode(),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_that_would_exhaust(pair: Path, name: str) -> None:
    """Traces that a command builds from are refused with exit 4 before anything is inflated."""
    (pair / "traces.npz").write_bytes(ARCHIVES[name]())
    args = [
        "quantize",
        str(pair / "checkpoint"),
        "--target",
        str(pair / "target"),
        "--traces",
        str(pair / "traces.npz"),
    ]
    assert 4 == bounded([*args, "--out", str(pair / "out"), "--profile", str(pair / "profile.json")])
    assert not (pair / "out").exists()
