"""Closed world of fields: each JSON leaf of a release and its sources is judged, harmless, or named as not judged."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter

import pytest

from forgepack.miniature.scene import Scene
from forgepack.profile import load_profile
from forgepack.verify.checks.coverage_leaves import LEAVES, Leaf
from forgepack.verify.checks.leaves import leaves_of, line_of, path_of, unjudged
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from forgepack.verify.policy.rule import all_rules
from tests.mutation.json_mutants import changes
from tests.verify.conftest import build_pair
from tests.verify.factory import tiny_profile
from tests.verify.leaf_stage import Found, LeafStage, bundle_pair, first_change, sampled

# Fields that the two public releases state and neither the miniature nor the tiny pair does.
PUBLIC = {
    "coreai/manifest.json": (
        *("chunks[].entries_by_soc.m5.v8_8k", "chunks[].compiled", "head.compiled", "chunks[].gdn_j", "rot1_basis"),
        *("chunks[].outputs[]", "derived.soc", "release"),
    ),
    "drafter/config.json": ("torch_dtype", "eos_token_id[]", "rope_theta"),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LeafStage:
    """Bundle a tiny pair and read it once."""
    profile = tiny_profile()
    root = build_pair(tmp_path_factory.mktemp("leaves") / "pair", profile)
    return LeafStage(bundle_pair(root, profile), profile)


@pytest.fixture(scope="module")
def mini(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> LeafStage:
    """Bundle the miniature's good pair and read it once."""
    root, pairing = tmp_path_factory.mktemp("mini"), scene.pairing
    for part in ("drafter", "target", "quant", "checkpoint"):
        shutil.copytree(getattr(pairing, part), root / part)
    profile = load_profile("mini")
    return LeafStage(bundle_pair(root, profile), profile)


def test_every_leaf_has_a_line(tiny: LeafStage, mini: LeafStage) -> None:
    """No leaf of the miniature's or the tiny release, checkpoint and quantization is without one."""
    missing = {leaf.name for stage in (tiny, mini) for leaf in stage.leaves() if leaf.line is None}
    assert set() == missing


def test_every_line_has_a_leaf(tiny: LeafStage, mini: LeafStage) -> None:
    """Each line is the one that counts for some leaf: of the miniature, the tiny pair, or a public release."""
    used = {leaf.line for stage in (tiny, mini) for leaf in stage.leaves()}
    used |= {line_of(document, path) for document, paths in PUBLIC.items() for path in paths}
    assert [] == [line for line in LEAVES if line not in used]
    assert [] == [line for line, count in Counter(LEAVES).items() if count > 1]


def test_lines_name_rules_and_reasons() -> None:
    """Each rule of a line exists; what no rule judges has a reason, and says where it is bound if it matters."""
    ids = {one.id for one in all_rules()}
    for line in LEAVES:
        assert set(line.judged) <= ids, line
        assert line.judged or line.reason, line
        assert line.bound or line.harmless or line.judged, line
        assert not (line.judged and line.harmless), line


def test_each_judged_leaf_is_refused_by_its_rules(tiny: LeafStage, whole: bool) -> None:
    """One leaf of each line, or all by --whole: with another value one of the line's rules fails.

    A line that also has a reason judges a part of the value: of all changes, some must be seen.
    """
    judged = (leaf for leaf in tiny.leaves() if leaf.line is not None and leaf.line.judged and leaf.keys)
    leaves = list(judged) if whole else sampled(judged, lambda leaf: leaf.line)
    assert len(leaves) > 60
    silent = [leaf.name for leaf in leaves if not _seen(tiny, leaf)]
    assert [] == silent


def _seen(stage: LeafStage, leaf: Found) -> bool:
    assert leaf.line is not None
    values = [other for _, other in changes(leaf.value)] if leaf.line.reason else [first_change(leaf.value)]
    return any(stage.ids_after(leaf, value, leaf.line.judged) for value in values)


def test_what_is_not_judged_is_named(mini: LeafStage) -> None:
    """The note names each such field of the miniature, an object as a whole where nothing in it is judged."""
    check = mini.check("CTR090")
    told = {finding.where: finding.found for finding in check.findings}
    assert ("fail", "note") == (check.status, check.severity)
    assert "not checked: chunks[].numerics, kv_cache" == told["coreai/manifest.json"]
    names = told["model/config.json"].removeprefix("not checked: ").split(", ")
    assert {"tie_word_embeddings", "text_config.rope_parameters", "text_config.head_dim"} <= set(names)
    expected = {
        (leaf.document, path_of(leaf.keys))
        for leaf in mini.leaves()
        if leaf.line is not None and leaf.line.told and leaf.value not in (None, [], {})
    }
    for document, path in expected:
        assert any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in _named(told, document))
    assert {document for document, _ in expected} == set(told)


def _named(told: dict[str, str], document: str) -> list[str]:
    return told[document].removeprefix("not checked: ").split(", ")


@pytest.mark.parametrize(
    ("file", "document"),
    [
        ("release/coreai/manifest.json", "coreai/manifest.json"),
        ("release/model/config.json", "model/config.json"),
        ("release/release.json", "bundle/release.json"),
    ],
)
def test_an_unknown_field_is_named(tiny: LeafStage, file: str, document: str) -> None:
    """Fields that no line knows are legal in documents of other tools, and named."""
    path = tiny.root / file
    kept = path.read_bytes()
    try:
        path.write_text(json.dumps({**json.loads(kept), "brand_new": {"a": [1], "b": 2}, "empty": {}}))
        told = {finding.where: finding.found for finding in tiny.check("CTR090", path).findings}
    finally:
        path.write_bytes(kept)
    assert "not checked: brand_new" == told[document]


def test_a_foreign_upstream_record_is_named_as_a_whole(tiny: LeafStage) -> None:
    """QWEN_SOURCE.json in another tool's form is not compared: its fields are named; in ours it is compared."""
    path = tiny.root / "release/QWEN_SOURCE.json"
    kept = path.read_bytes()
    try:
        for value, named in (({"repo": "x", "files": [1]}, "files, repo"), ([1], "the whole")):
            path.write_text(json.dumps(value))
            told = {finding.where: finding.found for finding in tiny.check("CTR090", path).findings}
            assert f"not checked: {named}" == told["bundle/QWEN_SOURCE.json"]
            assert "pass" == tiny.check("CTR092", path).status
        path.write_text(json.dumps({**json.loads(kept), "upstream": {"id": "other/model"}}))
        assert "fail" == tiny.check("CTR092", path).status
    finally:
        path.write_bytes(kept)


def test_paths_and_order() -> None:
    """A leaf's path joins keys by dots; an empty object is a leaf; of two lines that match the first counts."""
    raw = {"a": [{"b": 1}, {"b": 2}], "c": {}, "d": []}
    assert ["a[].b", "a[].b", "c", "d"] == [path_of(keys) for keys, _ in leaves_of(raw)]
    line = line_of("model/config.json", "text_config.vocab_size")
    assert isinstance(line, Leaf)
    assert "VOC001" in line.judged
    assert re.fullmatch(line.document, "model/config.json")
    assert ["x"] == unjudged("unknown.json", {"x": {"y": 1, "w": 2}, "z": None})
    assert ["text_config.x"] == unjudged("model/config.json", {"text_config": {"x": {"y": 1}, "vocab_size": 1}})


def test_a_pair_without_a_release_names_them_too(tiny: LeafStage) -> None:
    """At depth header, too, the note stands: nothing hides what was not judged."""
    path = tiny.root / "target/coreai/manifest.json"
    kept = path.read_bytes()
    try:
        path.write_text(json.dumps({**json.loads(kept), "gdn_j": 3}))
        pair = OpenPair(find_sources(tiny.root / "drafter", tiny.root / "target"), tiny.profile, Depth.HEADER)
        check = next(one for one in verify(pair).checks if one.id == "CTR090")
    finally:
        path.write_bytes(kept)
    assert ["not checked: gdn_j"] == [finding.found for finding in check.findings]
