"""The release's own pair check, written again, accepts our package and refuses what it should."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tests.clients.pair_check import pair_faults
from tests.verify.factory import tiny_profile
from tests.verify.running import by_name, failed, verified
from tests.verify.sabotage import CONFIG, MANIFEST, SIDECAR, STEM, TARGET_CONFIG, Case, edit, header, put

NUMBERS = asdict(tiny_profile().geometry)
SELECTOR = "drafter/selector.safetensors"


def test_our_package_is_accepted(base: Path) -> None:
    """The emitted pair has no fault by the release's rules."""
    assert [] == list(pair_faults(base, STEM, NUMBERS))


CASES = [
    Case(name="taps in another order", change=put(MANIFEST, "taps", value=[3, 1, 6]), roots=("taps",)),
    Case(name="block", change=put(CONFIG, "dflash_config", "block_size", value=7), roots=("block_size",)),
    Case(name="target layers", change=put(CONFIG, "num_target_layers", value=9), roots=("num_target_layers",)),
    Case(name="hidden", change=put(TARGET_CONFIG, "text_config", "hidden_size", value=64), roots=("hidden_size",)),
    Case(name="rows", change=put(TARGET_CONFIG, "text_config", "vocab_size", value=49), roots=("vocab_size",)),
    Case(name="T", change=put(SIDECAR, "T", value=4), roots=("T",)),
    Case(name="R", change=put(SIDECAR, "R", value=4), roots=("R",)),
    Case(name="RP", change=put(SIDECAR, "RP", value=32), roots=("RP",)),
    Case(name="W", change=put(SIDECAR, "W", value=32), roots=("W",)),
    Case(name="layers", change=put(CONFIG, "num_hidden_layers", value=3), roots=("num_hidden_layers",)),
    Case(name="head size", change=put(CONFIG, "head_dim", value=8), roots=("head_dim",)),
    Case(name="kv heads", change=put(CONFIG, "num_key_value_heads", value=2), roots=("num_key_value_heads",)),
    Case(name="rank", change=put(CONFIG, "dflash_config", "selector_rank", value=8), roots=("selector_rank",)),
    Case(name="export", change=put(MANIFEST, "export", value="x/other"), roots=("target_export", "head_export")),
    Case(name="head's export", change=put(SIDECAR, "head_export", value="x/lm_head"), roots=("head_export",)),
    Case(
        name="a third codebook",
        change=header(SELECTOR, lambda h: h.update({"x": h.pop(next(iter(h)))})),
        roots=("selector",),
    ),
    Case(
        name="headless",
        change=edit(SIDECAR, lambda s: s["entries"]["draft"]["outputs"].remove("logits")),
        roots=("entries",),
    ),
]


@by_name(CASES)
def test_what_it_refuses_the_verifier_refuses(pair: Path, case: Case) -> None:
    """Both refuse: the release's check by the field, the verifier by a rule."""
    case.change(pair)
    assert sorted(case.roots) == sorted(pair_faults(pair, STEM, NUMBERS))
    assert failed(verified(pair))
