"""Reading back: what was authored is found, and no damage to an asset can harm the reader's caller."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forgepack.artifacts.aimodel import AssetFiles, hash_program, read_asset_files
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.coreai_backend.process import Child, DamagedAssetError
from forgepack.coreai_backend.program import Port, program_from_json, program_to_json
from forgepack.coreai_backend.reader import (
    AssetReader,
    AssetReading,
    limits_for,
    limits_for_constants,
    open_constants,
    read_asset,
)
from forgepack.coreai_backend.target_assets import HeadWeights, head_constants
from forgepack.errors import CorruptError, ForgepackError, MissingError, NumericsError
from tests.coreai_backend.heads import make_head, write_head_file


def test_signature_is_read_exactly(head_reading: AssetReading) -> None:
    """Entry points come with names, element types and shapes of inputs and outputs."""
    (function,) = head_reading.program.functions
    assert function.name == "h8"
    assert function.inputs == (Port(name="x", dtype="F16", shape=(1, 48, 1, 8)),)
    assert function.outputs == (Port(name="logits", dtype="F16", shape=(8, 101)),)


def test_every_constant_reads_back_equal(head: HeadWeights, head_reading: AssetReading) -> None:
    """Each authored constant is found by its content; equal ones may have been merged under one name."""
    expected = {(c.dtype, c.shape): set() for c in head_constants(head, 4).values()}  # type: dict[tuple[str, tuple[int, ...]], set[str]]
    for constant in head_constants(head, 4).values():
        expected[constant.dtype, constant.shape].add(hashlib.sha256(constant.data.tobytes()).hexdigest())
    found: dict[tuple[str, tuple[int, ...]], set[str]] = {}
    for read in head_reading.program.constants:
        if read.name is not None:
            assert read.sha256 is not None
            found.setdefault((read.dtype, read.shape), set()).add(read.sha256)
    assert expected == found


def test_operations_refer_to_what_they_use(head_reading: AssetReading) -> None:
    """The trace links each convolution to its kernel's decoder and the decoder to constants."""
    operations = head_reading.program.functions[0].operations
    convolutions = [op for op in operations if op.short == "conv2d"]
    assert len(convolutions) == 4
    for convolution in convolutions:
        decoder = operations[convolution.operands[1].index]
        assert decoder.short == "lut_to_dense"
        assert [o.kind for o in decoder.operands] == ["constant"] * 3


def test_program_survives_the_pipe(head_reading: AssetReading) -> None:
    """The JSON form of a program gives the same program."""
    assert program_from_json(program_to_json(head_reading.program)) == head_reading.program


def test_small_constants_carry_their_values(head_reading: AssetReading) -> None:
    """Scalars and shapes come with their values, so folds and eps can be re-derived without another read."""
    scalars = [c.values().item() for c in head_reading.program.constants if c.dtype == "F16" and c.shape == ()]
    assert sorted(scalars) == [float(np.float16(1e-3))]


def test_chosen_constants_can_be_fetched(head: HeadWeights, head_reading: AssetReading) -> None:
    """The bytes of a constant arrive as a memory map while the context lasts."""
    index = next(n for n, c in enumerate(head_reading.program.constants) if c.name == "norm")
    with open_constants(head_reading, [index]) as payloads:
        assert payloads[index].tobytes() == head.gain.astype(np.float16).tobytes()


def test_one_child_serves_a_reader_while_it_is_entered(
    started: list[Child], head: HeadWeights, head_asset: AssetFiles, head_reading: AssetReading
) -> None:
    """Programs and constants come from one child inside the context, each from a new one outside; none is left."""
    index = next(n for n, c in enumerate(head_reading.program.constants) if c.name == "norm")
    reader = AssetReader(lambda: limits_for_constants(head_asset))
    with reader:
        assert head_reading == reader.read(head_asset, head=True)
        with open_constants(head_reading, [index], reader=reader) as payloads:
            assert head.gain.astype(np.float16).tobytes() == payloads[index].tobytes()
        assert [None] == [child._process.poll() for child in started]
    for _ in range(2):
        assert head_reading.program == reader.read(head_asset).program
    assert [True] * 3 == [child._process.poll() is not None for child in started]


def test_a_damaged_asset_takes_its_child_along_and_no_other_asset(
    started: list[Child], head_asset: AssetFiles, head_reading: AssetReading, copy_of: Path
) -> None:
    """The error names the asset that it is about; those before and after it are read, by two children in all."""
    program = copy_of / "main.mlirb"
    program.write_bytes(program.read_bytes()[:-4000])
    damaged = read_asset_files(copy_of)
    with AssetReader(lambda: limits_for(head_asset, damaged)) as reader:
        assert head_reading == reader.read(head_asset, head=True)
        with pytest.raises(DamagedAssetError) as caught:
            reader.read(damaged)
        assert head_reading == reader.read(head_asset, head=True)
    assert (str(copy_of), 2) == (caught.value.where, len(started))


def test_an_error_of_ours_leaves_the_child_alive(started: list[Child]) -> None:
    """What is read but refused takes nothing along: the same child answers what is asked next."""
    with AssetReader(limits_for, module="tests.coreai_backend.misbehaving_child") as reader:
        with pytest.raises(NumericsError):
            reader.ask({"command": "do", "kind": "ours"}, subject="a number")
        assert {"done": "nothing"} == reader.ask({"command": "do", "kind": "nothing"}, subject="nothing")
    assert 1 == len(started)


def test_a_child_that_gave_no_answer_in_time_is_not_asked_again(started: list[Child]) -> None:
    """What it might still say would be taken for the answer to the next question."""
    with AssetReader(limits_for, module="tests.coreai_backend.misbehaving_child") as reader:
        with pytest.raises(DamagedAssetError):
            reader.ask({"command": "do", "kind": "hang"}, subject="the first", seconds=0.2)
        assert {"done": "nothing"} == reader.ask({"command": "do", "kind": "nothing"}, subject="the second")
    assert 2 == len(started)


def test_a_head_that_is_held_against_the_exports_reads_the_same(
    head: HeadWeights, head_asset: AssetFiles, head_reading: AssetReading, tmp_path: Path
) -> None:
    """The export's digest is the head's; the package reads the same after its own export or another."""
    own = write_head_file(tmp_path / "own.safetensors", head)
    other = write_head_file(tmp_path / "other.safetensors", make_head(seed=2))
    assert head_reading.require_head().digest == AssetReader(limits_for).read_head(own)
    for export in (own, other):
        with AssetReader(lambda: limits_for(head_asset)) as reader:
            digest = reader.read_head(export)
            assert head_reading == reader.read(head_asset, head=True)
        assert (digest == head_reading.require_head().digest) is (export is own)


def test_a_file_that_is_no_head_is_told_by_its_own_name(tmp_path: Path) -> None:
    """What keeps an export's head from being read crosses the pipe as it is."""
    path = tmp_path / "lm_head.safetensors"
    with SafetensorsWriter(path, {"other": ("U8", (4,))}, {}) as writer:
        writer.write("other", np.zeros(4, np.uint8))
    with pytest.raises(CorruptError) as caught:
        AssetReader(limits_for).read_head(read_safetensors(path))
    assert ("head-form", str(path)) == (caught.value.code, caught.value.where)


def test_limits_fit_the_largest_asset(head_asset: AssetFiles) -> None:
    """A child that reads several assets may use the memory that the largest needs, and write its constants."""
    larger = replace(head_asset, program_bytes=1 << 30)
    assert limits_for(larger) == limits_for(head_asset, larger) == limits_for(larger, head_asset)
    assert (1 << 30) <= limits_for_constants(head_asset, larger).file_size


def test_a_program_that_refers_forwards_is_refused(head_reading: AssetReading) -> None:
    """A reply whose operands point nowhere is nonsense, whatever produced it."""
    raw = program_to_json(head_reading.program)
    raw["functions"][0]["operations"][0][1] = ["o99.0"]
    with pytest.raises(ValueError, match=r"refers to o99\.0"):
        program_from_json(raw)


Damage = Callable[[bytes], bytes]


def flipped(place: float, mask: int) -> Damage:
    def damage(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[int(place * (len(data) - 1))] ^= mask
        return bytes(changed)

    return damage


DAMAGES: dict[str, Damage] = {
    "half": lambda data: data[: len(data) // 2],
    "last-byte-missing": lambda data: data[:-1],
    "header-only": lambda data: data[:64],
    "zeroed-tail": lambda data: data[:64] + bytes(len(data) - 64),
    "trailing-bytes": lambda data: data + b"xxxx",
    "random-tail": lambda data: data[:16] + np.random.default_rng(5).bytes(len(data) - 16),
    **{f"flip-{n}": flipped(p, m) for n, (p, m) in enumerate([(0.001, 0xFF), (0.01, 1), (0.2, 0x80), (0.98, 0x55)])},
    **{f"tail-{n}": flipped(1 - n / 400, 1 << n) for n in range(6)},
}


@pytest.mark.parametrize("name", sorted(DAMAGES))
def test_damaged_bytecode_never_harms_the_caller(copy_of: Path, name: str) -> None:
    """Damage is seen by the digest; the reader then ends in DamagedAssetError or gives some program, no crash."""
    program = copy_of / "main.mlirb"
    original = program.read_bytes()
    program.write_bytes(DAMAGES[name](original))
    files = read_asset_files(copy_of)
    with pytest.raises(CorruptError) as caught:
        hash_program(files)
    assert caught.value.code == "aimodel-hash"
    assert outcome(files) in {"asset-crash", "a program"}


def outcome(files: AssetFiles) -> str:
    """Return the code of the reader's error, or that it read a program: Core AI takes some damage silently."""
    try:
        read_asset(files, head=True)
    except DamagedAssetError as err:
        return err.code
    return "a program"


def test_truncated_bytecode_aborts_the_child_alone(copy_of: Path) -> None:
    """Apple's reader aborts on truncated bytecode; the caller gets the signal's name in an error."""
    program = copy_of / "main.mlirb"
    program.write_bytes(program.read_bytes()[:-4000])
    with pytest.raises(DamagedAssetError) as caught:
        read_asset(read_asset_files(copy_of))
    assert caught.value.exit_code == 4
    assert "SIGABRT" in str(caught.value.found)


def write(path: str, data: bytes) -> Callable[[Path], object]:
    return lambda root: (root / path).write_bytes(data)


def remove(path: str) -> Callable[[Path], object]:
    return lambda root: (root / path).unlink()


def folder_instead(path: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / path).unlink()
        (root / path).mkdir()

    return change


FILE_FAULTS: dict[str, tuple[Callable[[Path], object], type[ForgepackError], str]] = {
    "no-program": (remove("main.mlirb"), MissingError, "missing"),
    "no-hash": (remove("main.hash"), MissingError, "missing"),
    "no-metadata": (remove("metadata.json"), MissingError, "missing"),
    "hash-31": (write("main.hash", bytes(31)), CorruptError, "aimodel-hash-format"),
    "hash-33": (write("main.hash", bytes(33)), CorruptError, "aimodel-hash-format"),
    "hash-as-hex": (write("main.hash", b"ab" * 32), CorruptError, "aimodel-hash-format"),
    "empty-program": (write("main.mlirb", b""), CorruptError, "wrong-magic"),
    "zero-program": (write("main.mlirb", bytes(5000)), CorruptError, "wrong-magic"),
    "html-program": (write("main.mlirb", b"<!DOCTYPE html><html>"), CorruptError, "wrong-magic"),
    "lfs-program": (
        write("main.mlirb", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        CorruptError,
        "lfs-pointer",
    ),
    "program-is-a-folder": (folder_instead("main.mlirb"), CorruptError, "not-regular"),
    "metadata-no-json": (write("metadata.json", b"not json"), CorruptError, "json-syntax"),
    "metadata-array": (write("metadata.json", b"[1]"), CorruptError, "json-type"),
    "metadata-empty": (write("metadata.json", b"{}"), CorruptError, "aimodel-version"),
    "metadata-version": (write("metadata.json", b'{"assetVersion": "99.0"}'), CorruptError, "aimodel-version"),
}


@pytest.mark.parametrize("name", sorted(FILE_FAULTS))
def test_faults_of_the_files_are_told_without_core_ai(copy_of: Path, name: str) -> None:
    """Each fault that plain reading can see has its own code, before any child is started."""
    damage, kind, code = FILE_FAULTS[name]
    damage(copy_of)
    with pytest.raises(kind) as caught:
        read_asset_files(copy_of)
    assert caught.value.code == code


def test_other_kinds_of_asset_are_named(copy_of: Path, tmp_path: Path) -> None:
    """A compiled asset, a file in place of the folder and an absent one each say what they are."""
    compiled = tmp_path / "copy.aimodelc"
    shutil.copytree(copy_of, compiled)
    (tmp_path / "file.aimodel").write_bytes(b"PK")
    for path, code in (
        (compiled, "asset-kind"),
        (tmp_path / "file.aimodel", "not-a-directory"),
        (tmp_path / "absent.aimodel", "missing"),
    ):
        with pytest.raises(ForgepackError) as caught:
            read_asset_files(path)
        assert caught.value.code == code


def test_a_wrong_main_hash_is_told(copy_of: Path) -> None:
    """Core AI accepts a wrong main.hash silently; this reader does not."""
    (copy_of / "main.hash").write_bytes(bytes(32))
    with pytest.raises(CorruptError) as caught:
        hash_program(read_asset_files(copy_of))
    assert caught.value.code == "aimodel-hash"
    assert caught.value.expected == "0" * 64


def test_foreign_files_are_listed(head_asset: AssetFiles, copy_of: Path) -> None:
    """Files that do not belong to an asset are listed for the verifier to judge."""
    (copy_of / "extra.bin").write_bytes(b"x")
    assert head_asset.extra == ()
    assert read_asset_files(copy_of).extra == ("extra.bin",)
