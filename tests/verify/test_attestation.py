"""A second target passes by an attestation that is whole, of package and target, and of evidence about both."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.canonical import dump_canonical, parse_object
from forgepack.errors import MissingError, UsageError
from forgepack.render import render_report
from forgepack.resources import schema_path
from forgepack.schema_check import schema_faults
from forgepack.verify.checks.target_record import REFACTORED
from tests.verify.attested import (
    CONFIG,
    HEAD,
    LAYER,
    MANIFEST,
    attested,
    forged,
    judged,
    make_sibling,
    write_attestation,
    write_evidence,
)
from tests.verify.factory import write_layer
from tests.verify.running import check_of, explain_all, failed, roots, told
from tests.verify.sabotage import bytes_of, edit, put, remove, tensor

Tree = dict[str, Any]


@pytest.fixture(scope="session")
def siblings(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the good pair with a second target, evidence and attestation; it is never changed."""
    root = Path(shutil.copytree(base, tmp_path_factory.mktemp("siblings") / "pair"))
    make_sibling(root)
    write_attestation(root)
    return root


@pytest.fixture
def second(siblings: Path, tmp_path: Path) -> Path:
    """Return a copy of the pair with its second target, to be spoiled."""
    return Path(shutil.copytree(siblings, tmp_path / "second"))


@pytest.mark.parametrize("depth", ["header", "hash", "lineage"])
def test_another_target_is_not_attested(siblings: Path, depth: str) -> None:
    """Without an attestation one rule stands as the cause, says so and how to attest, and predicts nothing."""
    report = judged(siblings, depth)
    assert ["CTR060"] == roots(report), explain_all(report)
    assert "not attested for this target: another export, manifest, config" in told(report, "CTR060")
    assert "forgepack attest" in check_of(report, "CTR060").remedy
    assert "slow" not in render_report(report, "text").decode()


@pytest.mark.parametrize("depth", ["header", "hash", "lineage"])
def test_an_attested_target_passes(siblings: Path, depth: str) -> None:
    """With attestation and evidence the pair passes at every depth; notes tell other names and what is not judged."""
    found = judged(
        siblings,
        depth,
        attestations=(siblings / "attestation.json",),
        evidence=(siblings / "evidence.json",),
    )
    assert "pass" == found.verdict, explain_all(found)
    assert [] == found.failed("warning")
    assert ["CTR069", "CTR083", "CTR090"] == [check.id for check in found.failed("note")]


def test_the_package_stays_as_it_is(base: Path, siblings: Path) -> None:
    """Attesting changes no byte of the package, and the pair with its own target passes as before."""
    for path in sorted(p for p in (base / "drafter").rglob("*") if p.is_file()):
        assert path.read_bytes() == (siblings / path.relative_to(base)).read_bytes()
    assert "pass" == judged(siblings, target="target").verdict


def test_equal_inputs_give_equal_attestations(siblings: Path) -> None:
    """No clock and no path is in it: attested again, it has the same bytes, and follows its schema."""
    result = attested(siblings)
    assert result.attestation is not None
    data = dump_canonical(result.attestation)
    assert (siblings / "attestation.json").read_bytes() == data
    assert () == schema_faults(json.loads(data), "attestation")
    assert str(siblings).encode() not in data


def test_a_target_is_recorded_as_a_sidecar_records_it() -> None:
    """The schemas of sidecar and attestation describe a target by the same words, its description apart."""
    sidecar, attestation = (parse_object(schema_path(n).read_bytes(), where=n) for n in ("sidecar", "attestation"))
    own = sidecar["properties"]["forgepack"]["properties"]["target"]
    other = attestation["properties"]["target"]
    assert {**own, "description": ""} == {**other, "description": ""}
    for name, value in attestation["$defs"].items():
        assert sidecar["$defs"][name] == value


def test_a_name_that_was_kept_is_no_excuse(second: Path) -> None:
    """A target of the same name with one other layer is refused by that file, not attested, and can be attested."""
    shutil.rmtree(second / "sibling")
    shutil.copytree(second / "target", second / "sibling")
    write_layer(second / LAYER.replace("tiny_sibling", "tiny_lr64mix"), np.random.default_rng(97))
    report = judged(second)
    assert ["CTR023"] == roots(report), explain_all(report)
    assert ("CTR023", True) == (check_of(report, "CTR061").cause, "not attested" in told(report, "CTR061"))
    write_evidence(second)
    own = write_attestation(second, "own.json")
    report = judged(second, attestations=(second / "attestation.json", own))
    assert "pass" == report.verdict, explain_all(report)


def test_several_attestations_serve_several_targets(second: Path) -> None:
    """Of several attestations the one of the found target holds, in any order."""
    first = second / "attestation.json"
    put(CONFIG, "fine_tuned", value="again")(second)
    write_evidence(second)
    other = write_attestation(second, "other.json")
    for given in ((first, other), (other, first)):
        assert "pass" == judged(second, attestations=given).verdict
    report = judged(second, attestations=(first,))
    assert ["CTR067"] == roots(report), explain_all(report)
    assert "not attested for this target" in told(report, "CTR061")


def swapped_tokens(raw: Tree) -> None:
    vocab = raw["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]


def other_row(data: bytes) -> bytes:
    return data[: -32 * 2 * 6] + b"\x00\x3c" * (32 * 6)  # rows 42 to 47: the mask token's among them


UNLIKE: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "head": (tensor(HEAD, "lm_head.lut", lambda lut: lut * 2), {"CTR064"}),
    "order of tokens": (edit("sibling/model/tokenizer.json", swapped_tokens), {"CTR064"}),
    "mask row": (bytes_of("sibling/model/embed_tokens_fp16.npy", other_row), {"CTR064"}),
    "basis": (put(MANIFEST, "rot1_basis", value="rot1"), {"CTR064"}),
    "taps": (put(MANIFEST, "taps", value=[1, 3, 5]), {"TAP002"}),
    "hidden size": (put(CONFIG, "text_config", "hidden_size", value=64), {"CTR013"}),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_a_target_that_shares_too_little_is_never_attested(second: Path, name: str) -> None:
    """Head, tokenizer, mask row, basis, taps and sizes must be shared: a rule says which is not."""
    change, rules = UNLIKE[name]
    change(second)
    write_evidence(second)
    result = attested(second)
    assert (None, 1) == (result.attestation, result.report.exit_code)
    assert rules <= failed(result.report), explain_all(result.report)


def test_a_head_of_equal_content_in_other_tables_is_shared(second: Path) -> None:
    """Table doubled and scales halved is the same head: it is compared by content, not by its tensors."""
    pytest.importorskip("coreai")
    tensor(HEAD, "lm_head.lut", lambda lut: lut * np.float16(2))(second)
    tensor(HEAD, "lm_head.scale", lambda scale: scale / np.float16(2))(second)
    write_evidence(second)
    result = attested(second, depth="lineage")
    assert result.attestation is not None, explain_all(result.report)
    assert ("not-evaluated", REFACTORED) == (
        check_of(result.report, "WGT015").status,
        check_of(result.report, "WGT015").reason,
    )


def drafters_file(raw: Tree) -> None:
    from forgepack.canonical import digest_json

    one = raw["drafters"][0]
    one["files"]["selector.safetensors"] = "00" * 32
    one["sha256"] = digest_json(one["files"])


def other_target(raw: Tree) -> None:
    from forgepack.canonical import digest_json

    raw["target"]["head_sha256"] = "00" * 32
    digests = {key: value for key, value in raw["target"].items() if key.endswith("_sha256")}
    raw["target"]["sha256"] = digest_json(digests)


EVIDENCE: dict[str, tuple[Callable[[Tree], object], str]] = {
    "of another drafter": (drafters_file, "CTR065"),
    "of another head": (other_target, "CTR065"),
    "of another export": (lambda raw: raw["target"].update(export="other"), "CTR065"),
    "of another profile": (lambda raw: raw["profile"].update(sha256="00" * 32), "CTR065"),
    "of another target's traces": (lambda raw: raw["traces"].update(export="tiny_lr64mix"), "CTR065"),
    "of traces with another head": (lambda raw: raw["traces"].update(identity="differs"), "CTR065"),
    "without a workload": (lambda raw: raw.pop("workload"), "CTR066"),
    "without a target": (lambda raw: raw.pop("target"), "CTR066"),
    "with a number that does not follow": (lambda raw: raw["drafters"][0]["acceptance"].update(mean=3), "CTR066"),
    "with a null": (lambda raw: raw["drafters"][0]["acceptance"].update(mean=None), "CTR066"),
    "of another kind": (lambda raw: raw.update(schema="forgepack.gate/1"), "CTR066"),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence_must_be_of_the_pair(second: Path, name: str) -> None:
    """A report about something else, or about nothing that is named, attests nothing."""
    change, rule = EVIDENCE[name]
    write_evidence(second, change)
    result = attested(second)
    assert (None, 1) == (result.attestation, result.report.exit_code)
    assert rule in roots(result.report), explain_all(result.report)


def test_traces_without_identity_are_warned_of(second: Path) -> None:
    """Traces of other tools do not say whose states they hold: legal, and told."""
    write_evidence(second, lambda raw: (raw["traces"].pop("export"), raw["traces"].update(identity="absent")))
    result = attested(second)
    assert result.attestation is not None
    assert ["CTR068"] == [check.id for check in result.report.failed("warning")]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def with_leaf(raw: Tree, path: tuple[Any, ...]) -> None:
    node: Any = raw
    for key in path[:-1]:
        node = node[key]
    value = node[path[-1]]
    if isinstance(value, str):
        flipped = "1" if value.endswith("0") else "0"
        node[path[-1]] = value[:-1] + flipped
    else:
        node[path[-1]] = 1 if value in (None, {}) else value + 1


def test_an_edited_attestation_is_refused(second: Path) -> None:
    """Whatever field is changed, removed or added: the schema or the attestation's own digest tells."""
    path = second / "attestation.json"
    whole = json.loads(path.read_bytes())
    mutants = []
    for place, _ in leaves(whole):
        mutants.append(json.loads(json.dumps(whole)))
        with_leaf(mutants[-1], place)
    mutants += [{key: value for key, value in whole.items() if key != name} for name in whole]
    mutants += [{**whole, "note": "x"}, {}, {**whole, "schema": "forgepack.attestation/3"}]
    for mutant in mutants:
        path.write_bytes(dump_canonical(mutant))
        report = judged(second, "header", attestations=(path,))
        assert "CTR062" in roots(report), mutant
    for data in (b"", b"{", b"[]", b'{"a": 1, "a": 2}', b"\xff\xfe"):
        path.write_bytes(data)
        report = judged(second, "header", attestations=(path,))
        assert 1 == report.exit_code
        assert any(ident.startswith("FMT") for ident in roots(report)), explain_all(report)


# What no file of the pair and no evidence says.
UNPROVEN = {"schema", "tool", "sha256"}
MANY = ("target", "files")


def test_a_forged_attestation_is_refused_by_what_it_speaks_of(second: Path, *, whole: bool) -> None:
    """With its own digest brought up to date, each field is still held against package, target or evidence.

    Every third field, with --whole each of them.
    """
    path = second / "attestation.json"
    data = path.read_bytes()
    places = [place for place, _ in leaves(json.loads(data)) if place[0] not in UNPROVEN]
    files = [place for place in places if place[:2] == MANY]
    assert len(places) > 100
    chosen = [one for one in places if one not in files[2:]]
    for place in chosen if whole else chosen[::3]:
        path.write_bytes(data)
        forged(path, lambda raw, at=place: with_leaf(raw, at))
        for depth in ("hash", "lineage"):
            report = judged(second, depth, attestations=(path,), evidence=(second / "evidence.json",))
            refused = failed(report) | {check.id for check in report.failed("warning")}
            if refused & _rules_of(place):
                break
        else:
            pytest.fail(f"{place} {explain_all(report)}")


def _rules_of(place: tuple[Any, ...]) -> set[str]:
    """Return the rules of which one must tell a changed field."""
    if place[0] == "target":
        return {
            *("CTR020", "CTR021", "CTR022", "CTR023", "CTR060", "CTR061", "CTR062", "CTR064", "CTR065", "CTR067"),
            *("HEAD007", "HEAD008", "HEAD009", "HEAD010", "TAP009", "TOK001", "TOK002", "TOK003", "TOK004", "TOK007"),
            *("WGT017", "WGT018"),
        }
    return {"CTR062", *({"CTR065", "CTR066"} if place[0] == "evidence" else {"CTR063", "CTR065"})}


def test_evidence_is_held_against_its_digest(second: Path) -> None:
    """Another report, though of the same pair, is not the evidence; without the evidence the attestation stands."""
    given = (second / "attestation.json",)
    write_evidence(second, lambda raw: raw["drafters"][0].update(path="elsewhere"))
    report = judged(second, attestations=given, evidence=(second / "evidence.json",))
    assert ["CTR066"] == roots(report), explain_all(report)
    assert "pass" == judged(second, attestations=given).verdict


def test_the_attestation_of_another_package_is_refused(other: Path, second: Path, tmp_path: Path) -> None:
    """Made for another drafter and target, it helps neither this pair nor any other."""
    foreign = Path(shutil.copytree(other, tmp_path / "foreign"))
    make_sibling(foreign)
    path = write_attestation(foreign)
    for target in ("sibling", "target"):
        report = judged(second, attestations=(path,), target=target)
        assert "CTR063" in roots(report), explain_all(report)
        assert "fail" == report.verdict


def test_a_target_that_changed_after_it_was_attested_is_refused(second: Path) -> None:
    """The attestation binds every file of the target, as a sidecar does."""
    write_layer(second / LAYER, np.random.default_rng(98))
    report = judged(second, attestations=(second / "attestation.json",))
    assert ["CTR023"] == roots(report), explain_all(report)
    assert "attestation: target.files" in told(report, "CTR023")


def test_what_can_not_be_attested_is_said(second: Path, foreign: Path, tmp_path: Path) -> None:
    """The package's own target, a target without its export, and a package that no sidecar binds."""
    root = Path(shutil.copytree(second, tmp_path / "own"))
    shutil.rmtree(root / "sibling")
    shutil.copytree(root / "target", root / "sibling")
    with pytest.raises(UsageError, match="emitted for this target"):
        attested(root)
    shutil.rmtree(second / "drafter")
    shutil.copytree(foreign / "drafter", second / "drafter")
    result = attested(second)
    assert (None, ["CTR001"]) == (result.attestation, [r for r in roots(result.report) if r.startswith("CTR0")][:1])
    remove("sibling/export")(second)
    root = Path(shutil.copytree(second, tmp_path / "bare"))
    shutil.rmtree(root / "drafter")
    shutil.copytree(tmp_path / "own/drafter", root / "drafter")
    with pytest.raises(MissingError, match="export"):
        attested(root)
