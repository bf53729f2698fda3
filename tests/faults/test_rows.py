"""The rows of TABLE.md that no test of a rule's own area covers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.cli.main import run
from forgepack.errors import UsageError
from forgepack.profile import load_profile
from forgepack.render import FORMATS
from tests.cli.test_verify import arguments
from tests.verify.factory import PROFILE, lock_checkpoint, tiny_profile
from tests.verify.running import by_name, failed, refuse, roots, told, verified
from tests.verify.sabotage import (
    ASSET,
    CONFIG,
    HEAD,
    MANIFEST,
    SIDECAR,
    TARGET_CONFIG,
    Case,
    bytes_of,
    edit,
    header,
    put,
    remove,
    tensor,
    write,
)

CHECKPOINT = "checkpoint/model.safetensors"
LOCK = "checkpoint/checkpoint.lock.json"
EMBEDDING = "target/model/embed_tokens_fp16.npy"
UNSAFE = (
    *("../../etc/x", "/abs", "C:\\x", "C:x", "\\\\host\\s", "a/../../b", "a\\..\\b"),
    *("", ".", "a\0b", "con.safetensors", "aux", "a//b", "a/", "nul.aimodel", "end. ", "x:stream"),
)


def _consistent_without(*names: str) -> Any:
    """Write a tensor file again without some tensors: header, offsets and lock agree with what is left."""

    def apply(root: Path) -> None:
        file = read_safetensors(root / CHECKPOINT)
        kept = {name: np.array(file.array(name)) for name in file.tensors if name not in names}
        specs = {name: ("BF16", value.shape) for name, value in kept.items()}
        with SafetensorsWriter(root / "kept", specs, {}) as out:
            for name, value in kept.items():
                out.write(name, value)
        (root / "kept").replace(root / CHECKPOINT)
        lock_checkpoint(root / "checkpoint", tiny_profile())

    return apply


def _norms_plus_one(root: Path) -> None:
    for name in read_safetensors(root / CHECKPOINT).tensors:
        if "norm" in name:
            tensor(CHECKPOINT, name, lambda values: values + 1)(root)


def _hole(root: Path) -> None:
    """Cut the file and let the system fill it up again: the right size, the last half a hole of zeros."""
    path = root / CHECKPOINT
    size = path.stat().st_size
    os.truncate(path, size // 2)
    os.truncate(path, size)


def _rotated(root: Path) -> None:
    """Multiply embedding and head by a permutation of the hidden axis: shapes, configs and logits stay."""
    table = np.load(root / EMBEDDING)
    np.save(root / EMBEDDING, np.ascontiguousarray(table[:, ::-1]))
    tensor(HEAD, "lm_head.idx", lambda values: values[:, ::-1].copy())(root)


CASES = [
    Case(
        name="10 another number of drafted tokens in the config",
        change=put(CONFIG, "dflash_config", "num_speculative_tokens", value=4),
        roots=("CTR011",),
    ),
    Case(
        name="10 another number of drafted tokens in the sidecar",
        change=put(SIDECAR, "num_speculative_tokens", value=4),
        roots=("PKG022",),
    ),
    Case(
        name="10 the block without its anchor",
        change=put(CONFIG, "dflash_config", "block_size", value=7),
        roots=("CTR010",),
    ),
    Case(name="13 unknown kind in the sidecar", change=put(SIDECAR, "kind", value="dflash3"), roots=("PKG022",)),
    Case(
        name="13 unknown version of the lock",
        change=put(LOCK, "schema", value="x/99"),
        sources=True,
        roots=("SRC002",),
    ),
    Case(name="14 drafter with fewer rows", change=put(CONFIG, "vocab_size", value=44), roots=("VOC001",)),
    Case(name="15 head file is missing", change=remove(HEAD), roots=("PKG001",), says=("lm_head.safetensors",)),
    Case(
        name="15 head tensor is missing",
        change=header(HEAD, lambda h: h.update({"lm_head.weight": h.pop("lm_head.idx")})),
        roots=("HEAD001",),
    ),
    Case(name="15 tied embeddings", change=put(CONFIG, "tie_word_embeddings", value=True), roots=("CTR011",)),
    Case(
        name="15 tie flag inside and outside",
        change=edit(
            TARGET_CONFIG,
            lambda raw: (
                raw.update(tie_word_embeddings=True),
                raw["text_config"].update(tie_word_embeddings=False),
                None,
            )[2],
        ),
        roots=("CTR012",),
    ),
    Case(name="25 rotated residual", change=_rotated, depth="hash", roots=("HEAD008", "WGT018")),
    Case(
        name="25 rotation hint",
        change=put(TARGET_CONFIG, "quantization_config", value={"rotation": "hadamard"}),
        roots=("CTR022",),
    ),
    Case(
        name="27 many tensors gone, all else consistent",
        change=_consistent_without("fc.weight", "norm.weight", "hidden_norm.weight"),
        sources=True,
        roots=("SRC018", "WGT001"),
        says=("fc.weight", "hidden_norm.weight", "norm.weight"),
    ),
    Case(
        name="29 another variant of the target",
        change=put(TARGET_CONFIG, "quantization_config", value={"block": 128}),
        roots=("CTR022",),
    ),
    Case(name="32 norms plus one", change=_norms_plus_one, depth="hash", sources=True, roots=("SRC005",)),
    Case(
        name="36 infinity in the head",
        change=tensor(HEAD, "lm_head.scale", lambda v: v.__setitem__(5, np.float16("inf"))),
        depth="lineage",
        roots=("NUM004",),
        says=("1 values, first at flat index 5",),
    ),
    Case(name="39 a hole in the file", change=_hole, depth="lineage", sources=True, roots=("NUM005",)),
    Case(
        name="65 null in the asset's metadata",
        change=put(f"{ASSET}/metadata.json", "creatorDefinedMetadata", "forgepack", "target", "export", value=None),
        roots=("PKG015",),
    ),
]


@by_name(CASES)
def test_rows(pair: Path, case: Case) -> None:
    """Each row is refused by exactly the rules that name its kind."""
    refuse(pair, case)


@pytest.mark.parametrize("path", UNSAFE)
@pytest.mark.parametrize(("file", "keys"), [(MANIFEST, ("head", "file")), (MANIFEST, ("chunks", 0, "file"))])
def test_paths_of_the_manifest(pair: Path, path: str, file: str, keys: tuple[Any, ...]) -> None:
    """Row 51: every unsafe path is refused with its field, by POSIX and Windows rules alike."""
    put(file, *keys, value=path)(pair)
    report = verified(pair)
    if "\0" in path:
        assert ["FMT004"] == roots(report) or "PATH001" in roots(report)
    else:
        assert ["PATH001"] == roots(report)
        assert ".file" in told(report, "PATH001")


@pytest.mark.parametrize("path", UNSAFE)
def test_paths_of_the_lock(pair: Path, path: str) -> None:
    """Row 51: the lock's paths are judged alike."""
    put(LOCK, "files", 0, "path", value=path)(pair)
    assert ["SRC002" if "\0" in path else "PATH001"] == roots(verified(pair, sources=True))


@pytest.mark.parametrize("path", UNSAFE)
def test_paths_of_the_sidecar(pair: Path, path: str) -> None:
    """Row 51: a path that the sidecar lists is never followed out of the package or the target."""

    def escape(raw: dict[str, Any]) -> None:
        for files in (raw["forgepack"]["package"]["files"], raw["forgepack"]["target"]["files"]):
            files[path] = {"bytes": 1, "sha256": "0" * 64}

    edit(SIDECAR, escape)(pair)
    assert {"PKG014", "CTR023"} <= failed(verified(pair, "hash"))


def test_pointer_tells_digest_and_size(pair: Path) -> None:
    """Row 43: a pointer is told as one, with the digest and size that it declares."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 123456\n"
    write("drafter/selector.safetensors", pointer)(pair)
    text = told(verified(pair), "FMT010")
    assert "ab" * 32 in text
    assert "123456 bytes" in text


@pytest.mark.parametrize("name", FORMATS)
def test_names_are_escaped_in_every_format(pair: Path, capsysbinary: pytest.CaptureFixture[bytes], name: str) -> None:
    """Row 47: a tensor's name with control characters and bidi marks never reaches the output as such."""
    hostile = "fc.weight\x1b[2J\r\n::error::x\u202e"
    header("drafter/selector.safetensors", lambda h: h.update({hostile: h.pop(next(iter(h)))}))(pair)
    assert 1 == run(arguments(pair, "header", "--format", name))
    out = capsysbinary.readouterr().out
    assert b"fc.weight" in out
    assert b"\x1b" not in out
    assert "\u202e".encode() not in out
    assert b"\n::error::x" not in out


def test_another_target_is_not_called_slow(
    pair: Path, other: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Row 30: a target that nothing binds is refused for what differs; nobody guesses at its speed."""
    (pair / "target").rename(pair / "old")
    shutil.copytree(other / "target", pair / "target")
    assert 1 == run(arguments(pair, "hash"))
    text = capsysbinary.readouterr().out.decode().lower()
    assert "will be slow" not in text
    assert "emitted for" in text


def _written(folder: Path, raw: Any) -> str:
    path = folder / "profile.json"
    path.write_text(json.dumps(raw))
    return str(path)


@pytest.mark.parametrize("key", ["mask_scale", "damping"])
def test_a_profile_with_nulls_is_refused(tmp_path: Path, key: str) -> None:
    """Row 71: a profile that leaves a number out as null judges nothing."""
    raw = json.loads(json.dumps(PROFILE))
    raw["recipe"][key] = None
    with pytest.raises(UsageError, match="not valid"):
        load_profile(_written(tmp_path, raw))


def test_last_byte_of_every_kind_of_file(pair: Path) -> None:
    """Rows 41 and 42: one byte less and one more are told apart in every file that knows its own length."""
    for file in ("drafter/selector.safetensors", HEAD, EMBEDDING):
        data = (pair / file).read_bytes()
        bytes_of(file, lambda b: b[:-1])(pair)
        assert "FMT012" in roots(verified(pair))
        (pair / file).write_bytes(data + b"x")
        assert "FMT013" in roots(verified(pair))
        (pair / file).write_bytes(data)
