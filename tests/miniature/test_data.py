"""The committed miniature: what it must hold, and that the profile pins these very files."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from forgepack.artifacts.checkpoint import read_checkpoint_files
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.target import locate_target, read_target
from forgepack.artifacts.tokenizer import read_tokenizer
from forgepack.artifacts.traces import read_traces
from forgepack.drafter.draft import Drafter
from forgepack.drafter.head import open_head
from forgepack.drafter.replay import open_traces
from forgepack.drafter.weights import ArrayWeights
from forgepack.miniature.data import PROFILE, find_miniature
from forgepack.parallel import open_pool
from forgepack.profile import load_profile

ROOT = Path(__file__).parents[2]
MINI = find_miniature()
GEOMETRY = load_profile(PROFILE).geometry


def test_the_profile_is_made_from_the_committed_files() -> None:
    """mini.json is what fixtures/make_profile.py writes: commit, tokenizer and donor digests included."""
    spec = importlib.util.spec_from_file_location("make_profile", ROOT / "fixtures" / "make_profile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.miniature_profile() == json.loads((ROOT / "forgepack/profiles/mini.json").read_bytes())


def test_it_is_small_enough_to_ship() -> None:
    """All files together stay under 8 MB."""
    assert sum(p.stat().st_size for p in MINI.checkpoint.parent.rglob("*") if p.is_file()) <= 8_000_000


def test_checkpoint_and_target_are_of_the_profile() -> None:
    """Config, tensors, head and embedding have the profile's shapes."""
    read_checkpoint_files(MINI.checkpoint, GEOMETRY)
    target = read_target(locate_target(MINI.target))
    assert (GEOMETRY.hidden, GEOMETRY.vocab, GEOMETRY.taps) == (
        target.config.hidden,
        target.config.vocab,
        target.manifest.taps,
    )
    assert target.head is not None
    assert (GEOMETRY.vocab, GEOMETRY.hidden) == target.embedding.shape == target.head.info("lm_head.idx").shape


@pytest.mark.parametrize("name", ["calibration", "held_out"])
def test_replay_reproduces_every_recorded_count(name: str) -> None:
    """The unquantized drafter's own replay accepts exactly the recorded m_j, block by block.

    One sequence of each file ends in a block whose commit has no last feature row: it calibrates, and does not count.
    """
    _, weights = read_checkpoint_files(MINI.checkpoint, GEOMETRY)
    target = read_target(locate_target(MINI.target))
    assert target.head is not None
    traces = read_traces(getattr(MINI, name), GEOMETRY)
    arrays = ArrayWeights(geometry=GEOMETRY, tensors={n: weights.array(n) for n in weights.tensors})
    drafter = Drafter(
        weights=arrays, head=open_head(target.head, GEOMETRY), embedding=target.embedding, mask_scale=0.7
    )
    with open_pool(1) as pool:
        result = open_traces(drafter, traces, pool).replay()
    assert [s.accepted[: s.counted].tolist() for s in traces.sequences] == [a.tolist() for a in result.accepted]
    assert traces.blocks - 1 == sum(s.counted for s in traces.sequences)
    assert sum(a.sum() for a in result.accepted) / sum(a.size for a in result.accepted) >= 2.0


def test_the_stale_head_has_the_same_form_and_other_content() -> None:
    """Names, dtypes and shapes are those of the true head; the weights are not."""
    target = read_target(locate_target(MINI.target))
    stale = read_safetensors(MINI.stale_head)
    assert target.head is not None
    assert {n: (t.dtype, t.shape) for n, t in target.head.tensors.items()} == {
        n: (t.dtype, t.shape) for n, t in stale.tensors.items()
    }
    assert not np.array_equal(target.head.array("lm_head.idx"), stale.array("lm_head.idx"))


def test_the_tokenizer_opens_in_the_common_library() -> None:
    """Bytes are their own ids there, and both libraries name the same texts."""
    ours = read_tokenizer(MINI.target / "model")
    theirs = Tokenizer.from_file(str(ours.path))
    text = "def f(x):\n    return x\t# \u00e9"
    assert list(text.encode()) == theirs.encode(text).ids
    assert {n: theirs.id_to_token(n) for n in ours.tokens} == dict(ours.tokens)
    assert "<|mask|>" == ours.tokens[GEOMETRY.mask_token]
