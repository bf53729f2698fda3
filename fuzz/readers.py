"""The readers under test: how a file is named, which good file to start from, and how far it is read."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forgepack.artifacts.aimodel import read_asset_files
from forgepack.artifacts.config import read_drafter_config, read_target_config
from forgepack.artifacts.lock import read_lock
from forgepack.artifacts.quant_report import read_quant_report
from forgepack.artifacts.safetensors_file import inspect_safetensors
from forgepack.artifacts.schema_check import schema_faults
from forgepack.artifacts.sidecar import read_sidecar
from forgepack.artifacts.target import read_embedding, read_manifest
from forgepack.artifacts.tokenizer import first_difference, read_tokenizer
from forgepack.artifacts.traces import read_traces
from forgepack.errors import ForgepackError
from forgepack.profile import Profile, load_profile
from forgepack.verify import readers as verify_readers


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A reader: the file's place below the folder it reads, its good form in a pair, and the reading itself."""

    file: str
    seed: str
    read: Callable[[Path, Profile], object]


def _sidecar(path: Path, _profile: Profile) -> None:
    parsed = read_sidecar(path)
    _allow(parsed.constants)
    parsed.faults()
    _allow(lambda: verify_readers.read_binding(verify_readers.read_sidecar(path), path))


def _allow(read: Callable[[], object]) -> None:
    """Go on after an error of this tool: the next reading of the same file is of interest, too."""
    try:
        read()
    except ForgepackError:
        return


def _safetensors(path: Path, _profile: Profile) -> None:
    file, faults = inspect_safetensors(path)
    if faults:
        raise faults[0]
    assert file is not None
    for name in file.tensors:
        file.array(name)


def _embedding(path: Path, _profile: Profile) -> None:
    table = read_embedding(path)
    if table.shape[0] and table.shape[1]:
        table.row(table.shape[0] - 1)


def _traces(path: Path, profile: Profile) -> None:
    traces = read_traces(path, profile.geometry)
    for sequence in traces.sequences:
        traces.features(sequence.index)


def _tokenizer(path: Path, _profile: Profile) -> None:
    tokenizer = read_tokenizer(path.parent)
    first_difference(tokenizer, tokenizer)


def _config(path: Path, profile: Profile) -> None:
    list(read_drafter_config(path).faults(profile.geometry))
    _allow(lambda: read_target_config(path))


def _record(path: Path, _profile: Profile) -> None:
    schema_faults(dict(verify_readers.read_object(path)), "dflash2_source")


STEM = "dflash2_lut4_gptq"
READERS: Mapping[str, Reader] = {
    "sidecar": Reader(file="x.json", seed=f"drafter/{STEM}.json", read=_sidecar),
    "safetensors": Reader(file="x.safetensors", seed="drafter/selector.safetensors", read=_safetensors),
    "npy": Reader(file="x.npy", seed="target/model/embed_tokens_fp16.npy", read=_embedding),
    "npz": Reader(file="x.npz", seed="", read=_traces),
    "tokenizer": Reader(file="tokenizer.json", seed="target/model/tokenizer.json", read=_tokenizer),
    "tokenizer_config": Reader(
        file="tokenizer_config.json", seed="target/model/tokenizer_config.json", read=lambda p, _: _settings(p)
    ),
    "config": Reader(file="config.json", seed="drafter/config.json", read=_config),
    "target_config": Reader(file="config.json", seed="target/model/config.json", read=_config),
    "lock": Reader(
        file="checkpoint.lock.json", seed="checkpoint/checkpoint.lock.json", read=lambda p, _: read_lock(p.parent)
    ),
    "manifest": Reader(
        file="manifest.json", seed="target/coreai/manifest.json", read=lambda p, _: read_manifest(p.parent)
    ),
    "report": Reader(file="report.json", seed="quant/report.json", read=lambda p, _: read_quant_report(p)),
    "record": Reader(file="x.json", seed="drafter/DFLASH2_SOURCE.json", read=_record),
    "metadata": Reader(
        file="x.aimodel/metadata.json",
        seed=f"drafter/{STEM}.aimodel/metadata.json",
        read=lambda p, _: read_asset_files(p.parent),
    ),
    "profile": Reader(file="x.json", seed="profile.json", read=lambda p, _: load_profile(str(p))),
}


def _settings(path: Path) -> None:
    (path.parent / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}')
    read_tokenizer(path.parent)


def try_bytes(reader: Reader, data: bytes, folder: Path, profile: Profile) -> ForgepackError | None:
    """Let a reader read ``data``; return the error of this tool that it ended in, anything else is raised."""
    path = folder / reader.file
    if path.parent.suffix == ".aimodel" and not path.parent.exists():
        path.parent.mkdir()
        (path.parent / "main.mlirb").write_bytes(b"ML\xefR" + bytes(60))
        (path.parent / "main.hash").write_bytes(bytes(32))
    path.write_bytes(data)
    try:
        reader.read(path, profile)
    except ForgepackError as err:
        str(err)
        return err
    return None


def seed_of(reader: Reader, pair: Path, profile: Profile) -> bytes:
    """Return the good file that a reader's inputs start from."""
    return (pair / reader.seed).read_bytes() if reader.seed else small_traces(profile)


def small_traces(profile: Profile) -> bytes:
    """Return a trace archive of one short sequence."""
    g, handle = profile.geometry, io.BytesIO()
    rng = np.random.default_rng(3)
    arrays = {
        "tokens_0": rng.integers(0, g.vocab, 40).astype(np.int32),
        "plen_0": np.array(5),
        "feats_0": rng.normal(0, 1, (39, len(g.taps), g.hidden)).astype(np.float16),
        "m_0": np.array([1, 2, 3], np.int8),
    }
    np.savez(handle, **arrays)  # type: ignore[arg-type]
    return handle.getvalue()
