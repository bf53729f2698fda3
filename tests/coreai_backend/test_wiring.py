"""Following a head from x to its logits: every form of the meaning is known, any other meaning is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forgepack.coreai_backend.child import open_program
from forgepack.coreai_backend.head import find_head
from forgepack.coreai_backend.program import AssetProgram
from forgepack.coreai_backend.wiring import Wiring, follow_head
from forgepack.errors import CorruptError
from tests.verify.factory import tiny_profile, write_head
from tests.verify.wired_heads import RIGHT, WRONG, Body, write_wired_head

FIXTURES = Path(__file__).parents[2] / "fixtures"
GENUINE = (
    "mini/target/coreai/head_T8.aimodel",
    "compat/0.1.0/release/coreai/head_T8.aimodel",
    "forge_made/head_T8.aimodel",
)
# What each kind ends as that is not simply another value before or behind the head.
UNKNOWN = {"the norm twice", "x added to the norm", "the mean over rows", "rows of x turned", "channels of x turned"}


def read(asset: Path) -> AssetProgram:
    return open_program(asset / "main.mlirb", where="head", digests=False).program


def follow(program: AssetProgram) -> Wiring:
    return follow_head(program, find_head(program, "head"), 8)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Body], AssetProgram]:
    g = tiny_profile().geometry
    write_head(tmp_path / "lm_head.safetensors", g, np.random.default_rng(1))

    def made(body: Body) -> AssetProgram:
        write_wired_head(tmp_path / "head.aimodel", tmp_path / "lm_head.safetensors", g, body)
        return read(tmp_path / "head.aimodel")

    return made


@pytest.mark.parametrize("name", GENUINE)
def test_genuine_heads_are_followed(name: str) -> None:
    """Our own heads and one of another builder, with another graph of the same meaning, have gain and eps."""
    wiring = follow(read(FIXTURES / name))
    assert wiring.fault is None
    assert wiring.gain is not None
    assert 0.0 <= (wiring.eps or 0.0) < 2e-6


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_forms_of_one_meaning(write: Callable[[Body], AssetProgram], body: Body) -> None:
    """Guards against overflow, parts and moves that cancel do not matter."""
    assert follow(write(body)).fault is None


@pytest.mark.parametrize("name", WRONG)
def test_another_meaning(write: Callable[[Body], AssetProgram], name: str) -> None:
    """Another order, norm, scale or factor is refused or not known, at an operation that is named."""
    try:
        wiring = follow(write(WRONG[name]))
    except CorruptError:  # not even read as a head (HEAD002)
        assert name == "scales of other rows"
        return
    if name == "another eps":
        assert (None, 0.25) == (wiring.fault, wiring.eps)
        return
    assert wiring.fault is not None
    assert (name not in UNKNOWN) is wiring.fault.understood
    assert "operation" in wiring.fault.where


def test_operations_beside_the_head(write: Callable[[Body], AssetProgram]) -> None:
    """An operation that leads nowhere, one with an attribute, and logits twice over are not the head's program."""
    program = write(RIGHT["our own"])
    (function,) = program.functions
    *operations, output = function.operations
    idle = replace(function, operations=(*operations, operations[0], output))
    odd = replace(function, operations=(replace(operations[0], attributes=(("x", "1"),)), *operations[1:], output))
    short = replace(function, operations=(*operations[:-1], replace(output, operands=operations[-1].operands[:1])))
    for changed in (idle, odd, short):
        assert follow(replace(program, functions=(changed,))).fault is not None


def test_logits_behind_another_function_are_no_head(write: Callable[[Body], AssetProgram]) -> None:
    """What no head computes is refused before it is followed."""
    with pytest.raises(CorruptError):
        find_head(write(lambda g: g.ops.tanh(g.logits(g.products(g.normed())))), "head")
