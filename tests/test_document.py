"""Versions of documents: N is read as it is, N-1 through its upgrade, anything else is refused with what helps.

The tests register a next version over the real documents of fixtures/compat, so
what is upgraded here was written by the tool.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forgepack import __version__, profile
from forgepack.artifacts import attestation, deny, lock, quant_report, release_record, sidecar, trace_identity
from forgepack.artifacts.lock import read_lock
from forgepack.artifacts.quant_report import read_quant_report
from forgepack.artifacts.sidecar import read_sidecar
from forgepack.artifacts.trace_identity import parse_identity
from forgepack.canonical import digest_json, dump_canonical
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError, ForgepackError, UsageError
from forgepack.profile import load_profile
from forgepack.release.recipe import lock as build_lock
from forgepack.release.recipe.lock import read_build_lock
from forgepack.release.replay import report as replay_report
from forgepack.release.replay.gate import policy as gate_policy
from forgepack.release.replay.gate import timings
from forgepack.release.replay.gate.policy import read_policy
from forgepack.release.replay.gate.timings import read_timings
from forgepack.release.replay.reading import read_replay_report
from forgepack.resources import data_folder
from forgepack.verify.policy import baseline, waivers

COMPAT = Path(__file__).parents[1] / "fixtures/compat/0.1.0"
SIDECAR = "release/drafter/dflash2_lut4_gptq.json"
DOCUMENTS: dict[str, tuple[DocumentKind, str]] = {
    "lock": (lock.KIND, "checkpoint/checkpoint.lock.json"),
    "quant report": (quant_report.KIND, "quant/report.json"),
    "release record": (release_record.KIND, "release/forgepack.json"),
    "build lock": (build_lock.KIND, "forgepack.lock"),
    "profile": (profile.KIND, "profile.json"),
    "replay": (replay_report.KIND, "replay.json"),
    "policy": (gate_policy.KIND, "gate_policy.json"),
}
# Reports of a verification state a number and their writer's release beside it.
REPORT = baseline.KIND
KINDS = [*(kind for kind, _ in DOCUMENTS.values()), sidecar.KIND, trace_identity.KIND, timings.KIND]
KINDS += [attestation.KIND, deny.KIND, waivers.KIND]

# Kinds that no command reads back.
WRITTEN_ONLY = {"forgepack.diff", "forgepack.inspect", "forgepack.gate", "forgepack.dflash2_source"}
WRITTEN_ONLY |= {"forgepack.qwen_source"}


def document(path: str) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((COMPAT / path).read_bytes())
    return raw


def renamed(raw: dict[str, Any]) -> dict[str, Any]:
    """Upgrade by giving the key ``tool`` another name, as a next version might."""
    return {"maker" if key == "tool" else key: value for key, value in raw.items()}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_current_version_is_read_as_it_is(name: str) -> None:
    """A document of version N passes unchanged."""
    kind, path = DOCUMENTS[name]
    raw = {**document(path), kind.key: kind.statement}
    assert raw == kind.current(raw, where=path)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_version_before_is_upgraded(name: str) -> None:
    """A real document of version 1 comes out in the form of version 2 and is not changed itself."""
    kind, path = DOCUMENTS[name]
    raw, before = document(path), document(path)
    found = replace(kind, version=2, upgrade=renamed).current(raw, where=path)
    assert {**renamed(before), "schema": f"{kind.name}/2"} == found
    assert before == raw


@pytest.mark.parametrize("name", DOCUMENTS)
def test_two_versions_before_is_refused_with_the_command_that_makes_it_anew(name: str) -> None:
    """Version N-2 is never guessed at: the error says which versions are read, and what to run."""
    kind, path = DOCUMENTS[name]
    with pytest.raises(CorruptError) as caught:
        replace(kind, version=3, upgrade=renamed).current(document(path), where=path)
    error = caught.value
    assert f"the {kind.title} is of an older version than forgepack {__version__} reads" == error.what
    assert (f"{kind.name}/3, or version 2 of it", kind.remake) == (error.expected, error.hint)
    assert (f"{path}: schema", kind.code) == (error.where, error.code)


@pytest.mark.parametrize(
    ("tool", "needed"),
    [
        ({"name": "forgepack", "version": "0.3.0"}, "install forgepack 0.3.0; or"),
        ({"version": "0.3.0\x1b[31m; rm -rf"}, f"install a forgepack newer than {__version__}; or"),
        ({"version": __version__}, f"install a forgepack newer than {__version__}; or"),
        (None, f"install a forgepack newer than {__version__}; or"),
    ],
    ids=["told", "hostile", "this one", "untold"],
)
def test_a_newer_version_names_the_release_that_reads_it(tool: object, needed: str) -> None:
    """The release is the one that wrote the document, as far as it tells one that can be a release."""
    with pytest.raises(CorruptError) as caught:
        lock.KIND.current({"schema": "forgepack.checkpoint-lock/99", "tool": tool}, where="a")
    assert f"the checkpoint lock is of a newer version than forgepack {__version__} reads" == caught.value.what
    assert str(caught.value.hint).startswith(needed)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        *(None, 1, "", "x/1", "forgepack.traces/1", "forgepack.checkpoint-lock", "forgepack.checkpoint-lock/0"),
        *("forgepack.checkpoint-lock/01", "forgepack.checkpoint-lock/1.0", "forgepack.checkpoint-lock/1\n"),
    ],
)
def test_another_kind_is_refused(schema: object) -> None:
    """What states no version, or another kind's, is of no version of this one."""
    with pytest.raises(CorruptError, match="this is not a checkpoint lock of forgepack"):
        lock.KIND.current({"schema": schema}, where="a")


def test_a_damaged_document_of_the_version_before_is_an_error_of_its_own() -> None:
    """An upgrade that finds no such key ends in CorruptError, not in the key's."""
    kind = replace(lock.KIND, version=2, upgrade=lambda raw: {"repo": raw["source"]["repo"]})
    with pytest.raises(CorruptError, match="not valid in its own version") as caught:
        kind.current({"schema": "forgepack.checkpoint-lock/1"}, where="a")
    assert "KeyError: 'source'" == caught.value.found


def test_a_document_may_state_a_number_alone() -> None:
    """A report of a verification has no name of its kind; a newer one names the release that wrote it."""
    raw = document("report.json")
    current = REPORT.current(raw, where="a")
    assert (
        {**raw, "schema_version": 2, "rule_set": 1, "options": None} == current == REPORT.current(current, where="a")
    )
    older = replace(REPORT, version=3, upgrade=renamed)
    assert {**renamed(current), "schema_version": 3} == older.current(current, where="a")
    with pytest.raises(CorruptError, match="newer version") as caught:
        REPORT.current({**raw, "schema_version": 3, "version": "0.4.1"}, where="a")
    assert str(caught.value.hint).startswith("install forgepack 0.4.1; or")
    for stated in (True, "1", 0, -1, 10**6, None):
        with pytest.raises(CorruptError, match="this is not a report of a verification"):
            REPORT.current({**raw, "schema_version": stated}, where="a")


@pytest.mark.parametrize(("version", "upgrade"), [(1, renamed), (2, None)])
def test_a_kind_has_an_upgrade_exactly_from_version_2_on(version: int, upgrade: Any) -> None:
    """Version 1 comes after nothing; every later one must be reachable."""
    with pytest.raises(ValueError, match="upgrade"):
        replace(lock.KIND, version=version, upgrade=upgrade)


@pytest.mark.parametrize(("adopted", "evidence"), [(False, "hub"), (True, None)])
def test_a_lock_of_the_version_before_keeps_its_identity(tmp_path: Path, adopted: bool, evidence: str | None) -> None:
    """Sidecars record the digest of the lock as it was written; what its version does not say stays unknown."""
    written = {**document("checkpoint/checkpoint.lock.json"), "adopted": adopted}
    (tmp_path / "checkpoint.lock.json").write_bytes(dump_canonical(written))
    found = read_lock(tmp_path)
    assert digest_json(written) == found.digest
    assert {evidence} == {file.evidence for file in found.files}
    assert "forgepack.checkpoint-lock/2" == found.as_json()["schema"]


def test_a_sidecar_of_the_version_before_is_read_in_todays_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binding is upgraded, the runtime's keys and the file's digest stay."""
    before, written = read_sidecar(COMPAT / SIDECAR), json.loads((COMPAT / SIDECAR).read_bytes())
    monkeypatch.setattr(sidecar, "KIND", replace(sidecar.KIND, version=2, upgrade=renamed))
    found = read_sidecar(COMPAT / SIDECAR)
    assert before.sha256 == found.sha256
    assert {
        **written,
        "forgepack": {**renamed(written["forgepack"]), "schema": "forgepack.sidecar/2"},
    } == found.raw


def newer(tmp_path: Path, name: str, source: str) -> Path:
    """Write a document of compat as if the next version had written it."""
    raw = document(source)
    raw["schema"] = raw["schema"].replace("/1", "/99")
    path = tmp_path / name
    path.write_bytes(dump_canonical(raw))
    return path


@pytest.mark.parametrize(
    ("name", "source", "read", "kind"),
    [
        ("checkpoint.lock.json", DOCUMENTS["lock"][1], lambda path: read_lock(path.parent), CorruptError),
        ("report.json", DOCUMENTS["quant report"][1], read_quant_report, CorruptError),
        ("forgepack.lock", DOCUMENTS["build lock"][1], read_build_lock, CorruptError),
        ("profile.json", DOCUMENTS["profile"][1], lambda path: load_profile(str(path)), UsageError),
        ("policy.json", DOCUMENTS["policy"][1], read_policy, UsageError),
    ],
    ids=["lock", "quant report", "build lock", "profile", "policy"],
)
def test_readers_refuse_what_a_newer_tool_wrote(
    tmp_path: Path, name: str, source: str, read: Any, kind: type[ForgepackError]
) -> None:
    """Each reader says that the document is of a newer version, before any other word about its content."""
    with pytest.raises(kind, match=f"newer version than forgepack {__version__} reads") as caught:
        read(newer(tmp_path, name, source))
    assert "/99" in str(caught.value.found)
    assert "install" in str(caught.value.hint)


def test_reports_and_timings_of_a_newer_tool_are_faults_of_a_gate(tmp_path: Path) -> None:
    """A gate reads none of them as good: one fault that names the version."""
    (fault,) = read_replay_report(newer(tmp_path, "replay.json", "replay.json")).faults
    assert ("$.schema", "forgepack.replay/2, or version 1 of it") == (fault.where, fault.expected)
    assert "newer version" in fault.found
    path = tmp_path / "timings.json"
    path.write_bytes(dump_canonical({"schema": "forgepack.timings/2"}))
    ((where, expected, found),) = read_timings(path).faults
    assert (f"{path}: schema", "forgepack.timings/1") == (where, expected)
    assert "newer version" in found


def test_traces_of_a_newer_tool_are_refused() -> None:
    """An identity that means something else is not read as today's."""
    with pytest.raises(CorruptError, match="newer version"):
        parse_identity(b'{"schema": "forgepack.traces/2"}', where="a.npz")


def test_kinds_and_shipped_schemas_state_the_same_versions() -> None:
    """The schema of a kind demands the kind's current version, so that neither is raised alone."""
    stated = {}
    for path in data_folder("schemas").iterdir():
        schema = json.loads(path.read_bytes()).get("properties", {})
        schema = schema.get("forgepack", {}).get("properties", schema)
        if str(const := schema.get("schema", {}).get("const", "")).startswith("forgepack."):
            stated[const.partition("/")[0]] = const
    read = {kind.name: kind.schema for kind in KINDS}
    assert read == {name: schema for name, schema in stated.items() if name not in WRITTEN_ONLY}
