"""Indices of the head that its content proves: the same findings as deriving and hashing them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.canonical import sha256_hex
from forgepack.coreai_backend.head import Head, HeadPart
from forgepack.coreai_backend.head_content import content_of_program, content_of_safetensors
from forgepack.coreai_backend.program import AssetProgram, Constant
from forgepack.coreai_backend.reader import FoundHead
from forgepack.coreai_backend.target_assets import HeadWeights
from forgepack.emit.constant_spec import ConstantSpec
from forgepack.emit.table import constant_table
from forgepack.errors import CorruptError
from forgepack.profile import Profile
from forgepack.verify.checks.derivation import HEAD, derived_differences, proven_indices
from forgepack.verify.inputs.reading import Input
from tests.coreai_backend.heads import make_head, write_head_file
from tests.verify.factory import tiny_profile

Payloads = dict[str, np.ndarray[Any, Any]]
SHAPE = (24, 6)


def small_profile(parts: int, power: int) -> Profile:
    profile = tiny_profile()
    geometry = replace(profile.geometry, vocab=SHAPE[0], hidden=SHAPE[1], head_parts=parts)
    return replace(profile, geometry=geometry, recipe=replace(profile.recipe, lut_fold_default=2.0**power))


def head_specs(profile: Profile) -> dict[str, ConstantSpec]:
    table = constant_table(profile.geometry, profile.recipe)
    return {role: spec for role, spec in table.items() if role.startswith("head.")}


def payloads_of(profile: Profile, file: SafetensorsFile) -> Payloads:
    """Return what the emitter makes of an export's head, by role."""
    specs = head_specs(profile)
    return {role: spec.evaluate(lambda name: file.array(name.partition(":")[2])) for role, spec in specs.items()}


def judged(profile: Profile, file: SafetensorsFile, payloads: Payloads) -> Any:
    """Return a pair of an export and a package of which the head's constants alone are there."""
    specs = head_specs(profile)
    data = {role: np.ascontiguousarray(payloads[role]).reshape(-1).view(np.uint8) for role in specs}
    places = {role: place for place, role in enumerate(specs)}
    constants = [
        Constant(name=role, dtype=spec.dtype, shape=spec.shape, nbytes=data[role].size, sha256=sha, data=None)
        for role, spec in specs.items()
        for sha in [sha256_hex(data[role].tobytes())]
    ]
    parts = tuple(
        HeadPart(
            form="lut4",
            rows=specs[f"{stem}.idx"].shape[0],
            columns=SHAPE[1],
            weight=places[f"{stem}.idx"],
            lut=places[f"{stem}.lut"],
            factors=(places[f"{stem}.scale"],),
        )
        for stem in [f"head.{n}" for n in range(profile.geometry.head_parts)]
    )
    program, head = AssetProgram(functions=(), constants=tuple(constants)), Head(function="draft", parts=parts)
    names = list(specs)
    found = content_of_program(program, head, lambda place: data[names[place]], "the package").digest()
    roles = SimpleNamespace(constants={role: constants[place] for role, place in places.items()})
    return SimpleNamespace(
        profile=profile,
        layout=SimpleNamespace(asset=Path("asset")),
        place=lambda path, part="": f"{path}: {part}",
        head=Input("head", lambda: file),
        quant=None,
        checkpoint=None,
        roles=Input("roles", lambda: roles),
        comparison=Input("comparison", lambda: SimpleNamespace(roles=places)),
        package_head=Input("package_head", lambda: FoundHead(head=head, digest=found)),
        export_digest=Input("export_digest", lambda: content_of_safetensors(file).digest()),
    )


def both_ways(pair: Any) -> tuple[list[str], list[str]]:
    """Return the constants that differ, once with what the content proves and once with all of them derived."""

    def unread() -> Any:
        raise CorruptError("not looked at")

    told = [finding.subject for finding in derived_differences(pair, HEAD)]
    derived: Any = SimpleNamespace(**{**vars(pair), "export_digest": Input("export_digest", unread)})
    assert not proven_indices(derived, head_specs(pair.profile))
    return told, [finding.subject for finding in derived_differences(derived, HEAD)]


def ascending(head: HeadWeights) -> HeadWeights:
    return replace(head, lut=np.sort(head.lut))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("heads")


PARTS, POWERS, SEEDS = st.sampled_from([1, 2, 3, 4, 6, 8]), st.integers(-6, 3), st.integers(0, 99)


@settings(max_examples=30)
@given(parts=PARTS, power=POWERS, seed=SEEDS)
def test_a_good_head_is_proven_by_its_content(folder: Path, parts: int, power: int, seed: int) -> None:
    """With a table that ascends no index of a good package is derived again; with another one all are."""
    profile = small_profile(parts, power)
    for head, count in ((ascending(make_head(*SHAPE, seed=seed)), parts), (make_head(*SHAPE, seed=seed), 0)):
        file = write_head_file(folder / "lm_head.safetensors", head)
        pair = judged(profile, file, payloads_of(profile, file))
        assert count == len(proven_indices(pair, head_specs(profile)))
        assert ([], []) == both_ways(pair)


@settings(max_examples=60)
@given(parts=PARTS, power=POWERS, seed=SEEDS, data=st.data())
def test_each_change_is_found_as_by_deriving_all(
    folder: Path, parts: int, power: int, seed: int, data: st.DataObject
) -> None:
    """One changed bit of an index, a table or a scale of the package is told of its constant, either way."""
    profile = small_profile(parts, power)
    file = write_head_file(folder / "lm_head.safetensors", ascending(make_head(*SHAPE, seed=seed)))
    payloads = payloads_of(profile, file)
    role = data.draw(st.sampled_from(sorted(payloads)))
    changed = payloads[role].copy()
    raw = changed.reshape(-1).view(np.uint8)
    # The lowest bits of a float16 alone, so that every value stays finite.
    raw[data.draw(st.integers(0, raw.size - 1)) & (-1 if role.endswith("idx") else -2)] ^= 1
    told, derived = both_ways(judged(profile, file, {**payloads, role: changed}))
    assert [f"constant {role}"] == told == derived


def one_level_twice(head: HeadWeights) -> tuple[HeadWeights, HeadWeights]:
    export = replace(head, lut=np.concatenate([head.lut[:15], head.lut[14:15]]))
    return export, replace(export, idx=np.where(head.idx == 15, np.uint8(14), head.idx))


def levels_in_another_order(head: HeadWeights) -> tuple[HeadWeights, HeadWeights]:
    order = [1, 0, *range(2, 16)]
    return head, replace(head, lut=head.lut[order], idx=np.array(order, np.uint8)[head.idx])


@pytest.mark.parametrize("heads", [one_level_twice, levels_in_another_order])
def test_equal_ranks_prove_nothing_where_a_table_does_not_ascend(
    tmp_path: Path, heads: Callable[[HeadWeights], tuple[HeadWeights, HeadWeights]]
) -> None:
    """A package of other indices but the same products is told as deriving all tells it."""
    profile, files = small_profile(4, -4), (tmp_path / "export.safetensors", tmp_path / "package.safetensors")
    export, package = (
        write_head_file(path, head) for path, head in zip(files, heads(ascending(make_head(*SHAPE))), strict=True)
    )
    pair = judged(profile, export, payloads_of(profile, package))
    assert pair.export_digest.value == pair.package_head.value.digest
    told, derived = both_ways(pair)
    assert told == derived
    assert "constant head.0.idx" in told
