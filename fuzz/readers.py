"""The readers under test: how a file is named, which good file to start from, and how far it is read."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from forgepack.artifacts.aimodel import read_asset_files
from forgepack.artifacts.attestation import read_attestation
from forgepack.artifacts.config import read_drafter_config, read_target_config
from forgepack.artifacts.deny import read_deny_list
from forgepack.artifacts.lock import read_lock
from forgepack.artifacts.mil_blob import read_blob_file
from forgepack.artifacts.mil_text import parse_mil
from forgepack.artifacts.quant_report import read_quant_report
from forgepack.artifacts.release_json import read_release
from forgepack.artifacts.release_record import parse_sums
from forgepack.artifacts.safetensors_file import inspect_safetensors
from forgepack.artifacts.sidecar import read_sidecar
from forgepack.artifacts.target import read_embedding, read_manifest
from forgepack.artifacts.tokenizer import first_difference, read_tokenizer
from forgepack.artifacts.trace_identity import parse_identity
from forgepack.artifacts.traces import read_traces
from forgepack.cli.config import load_config
from forgepack.cli.main import COMMANDS, forgepack
from forgepack.errors import CorruptError, ForgepackError
from forgepack.profile import Profile, load_profile
from forgepack.release.inspect.inspection import inspect_path
from forgepack.release.recipe.lock import read_build_lock
from forgepack.release.replay.gate.policy import read_policy
from forgepack.release.replay.gate.template import policy_template
from forgepack.release.replay.gate.timings import read_timings
from forgepack.release.replay.reading import read_replay_report
from forgepack.render.inspect_text import inspect_lines
from forgepack.schema_check import schema_faults
from forgepack.verify.inputs import readers as verify_readers
from forgepack.verify.policy.baseline import read_baseline
from forgepack.verify.policy.waivers import read_waivers
from fuzz import seeds
from fuzz.seeds import STEM, Seed, of_bundle, of_json, of_pair, of_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A reader: the file's place below the folder it reads, what makes its good form, and the reading itself."""

    file: str
    seed: Seed
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


def _blob(path: Path, _profile: Profile) -> None:
    file = read_blob_file(path)
    for record in file.records.values():
        if record.bits <= 8:
            file.indices(record)
        file.raw(record)
    if file.faults:
        raise CorruptError(file.faults[0][1], code="blob")


def _mil(path: Path, _profile: Profile) -> None:
    if not parse_mil(path.read_bytes().decode("utf-8", "replace")).functions:
        raise CorruptError("no function", code="mil")


def _release(path: Path, _profile: Profile) -> None:
    release, faults = read_release(path)
    if release is not None:
        _ = release.roots, [release.of(file.component) for file in release.files]
    if faults:
        raise faults[0]


def _replay_report(path: Path, _profile: Profile) -> None:
    file = read_replay_report(path)
    _allow(lambda: policy_template(file, None))
    if file.faults:
        raise CorruptError("not a report", code=file.faults[0].kind)


def _timings(path: Path, _profile: Profile) -> None:
    file = read_timings(path)
    if file.timings is None:
        raise CorruptError("no timings", code="timings")
    _ = file.timings.speed_ratio


def _attestation(path: Path, _profile: Profile) -> None:
    file = read_attestation(path, "attestation")
    if file.faults:
        raise file.faults[0]


def _toml(path: Path, _profile: Profile) -> None:
    load_config(path, COMMANDS, _command)


@functools.cache
def _command(name: str) -> click.Command | None:
    return forgepack.get_command(click.Context(forgepack), name)


def _inspected(path: Path, profile: Profile) -> None:
    found = inspect_path(path, deep=True, more=profile)
    inspect_lines(found)
    if found.faults:
        raise CorruptError("faults were found", code=found.faults[0].code)


READERS: Mapping[str, Reader] = {
    "sidecar": Reader(file="x.json", seed=of_pair(f"drafter/{STEM}.json"), read=_sidecar),
    "safetensors": Reader(file="x.safetensors", seed=of_pair("drafter/selector.safetensors"), read=_safetensors),
    "npy": Reader(file="x.npy", seed=of_pair("target/model/embed_tokens_fp16.npy"), read=_embedding),
    "npz": Reader(file="x.npz", seed=seeds.small_traces, read=_traces),
    "tokenizer": Reader(file="tokenizer.json", seed=of_pair("target/model/tokenizer.json"), read=_tokenizer),
    "tokenizer_config": Reader(
        file="tokenizer_config.json",
        seed=of_pair("target/model/tokenizer_config.json"),
        read=lambda p, _: _settings(p),
    ),
    "config": Reader(file="config.json", seed=of_pair("drafter/config.json"), read=_config),
    "target_config": Reader(file="config.json", seed=of_pair("target/model/config.json"), read=_config),
    "lock": Reader(
        file="checkpoint.lock.json",
        seed=of_pair("checkpoint/checkpoint.lock.json"),
        read=lambda p, _: read_lock(p.parent),
    ),
    "manifest": Reader(
        file="manifest.json", seed=of_pair("target/coreai/manifest.json"), read=lambda p, _: read_manifest(p.parent)
    ),
    "report": Reader(file="report.json", seed=of_pair("quant/report.json"), read=lambda p, _: read_quant_report(p)),
    "record": Reader(file="x.json", seed=of_pair("drafter/DFLASH2_SOURCE.json"), read=_record),
    "metadata": Reader(
        file="x.aimodel/metadata.json",
        seed=of_pair(f"drafter/{STEM}.aimodel/metadata.json"),
        read=lambda p, _: read_asset_files(p.parent),
    ),
    "profile": Reader(file="x.json", seed=of_pair("profile.json"), read=lambda p, _: load_profile(str(p))),
    "traces_identity": Reader(
        file="x.json", seed=of_json(seeds.IDENTITY), read=lambda p, _: parse_identity(p.read_bytes(), where="x")
    ),
    "release": Reader(file="release.json", seed=of_bundle("release.json"), read=_release),
    "sums": Reader(
        file="SHA256SUMS", seed=of_bundle("SHA256SUMS"), read=lambda p, _: parse_sums(p.read_bytes(), where="x")
    ),
    "replay_report": Reader(file="report.json", seed=seeds.replayed, read=_replay_report),
    "policy": Reader(file="policy.toml", seed=of_text(seeds.POLICY), read=lambda p, _: read_policy(p)),
    "timings": Reader(file="x.json", seed=of_json(seeds.TIMINGS), read=_timings),
    "toml": Reader(file="forgepack.toml", seed=of_text(seeds.TOML), read=_toml),
    "build_lock": Reader(file="forgepack.lock", seed=seeds.locked_build, read=lambda p, _: read_build_lock(p)),
    "blob": Reader(file="weight.bin", seed=seeds.blob, read=_blob),
    "mil": Reader(file="model.mil", seed=of_text(seeds.MIL), read=_mil),
    "attestation": Reader(file="x.json", seed=seeds.attested, read=_attestation),
    "waivers": Reader(
        file="x.json", seed=of_json(seeds.WAIVERS), read=lambda p, _: read_waivers(p, datetime.date(2027, 1, 1))
    ),
    "deny": Reader(file="x.json", seed=of_json(seeds.DENIED), read=lambda p, _: read_deny_list(p)),
    "baseline": Reader(file="x.json", seed=seeds.reported, read=lambda p, _: read_baseline(p)),
    "inspect": Reader(file="x.json", seed=of_pair(f"drafter/{STEM}.json"), read=_inspected),
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
    """Return the good file that a reader's inputs start from; what it takes is made beside the pair."""
    return reader.seed(pair, profile)
