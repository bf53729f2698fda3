"""Programs whose names, shapes and constants are right and which are others: ports, buffers, wiring, taps."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.coreai_backend.asset_writer import AssetMetadata
from forgepack.coreai_backend.target_assets import author_chunk_standin
from tests.verify.factory import EXPORT, tiny_profile
from tests.verify.programs import BUFFERS, DECLARATIONS, Change, change_drafter, change_program, port_attribute
from tests.verify.running import check_of, explain_all, failed, roots, told, verified
from tests.verify.target_packages import write_final_norm
from tests.verify.wired_heads import RIGHT, WRONG, overflowing, write_wired_head

HEAD = "target/coreai/head_T8.aimodel"
HEAD_FILE = f"target/export/{EXPORT}/lm_head.safetensors"
LAST_LAYER = f"target/export/{EXPORT}/layer_07.safetensors"
METADATA = AssetMetadata(author="tests", licence="Apache-2.0", description="a stand-in of the tests")


def some(kinds: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Return the parametrization of kinds by their names."""
    return pytest.mark.parametrize("kind", kinds.values(), ids=kinds)


@some(DECLARATIONS)
def test_another_declaration_is_refused(pair: Path, kind: Change) -> None:
    """A port of another encoding, or delegated elsewhere, is named, though every record was brought up to date."""
    change_drafter(pair, kind)
    report = verified(pair, "lineage")
    assert ["PKG030"] == roots(report), explain_all(report)
    assert "puts[" in told(report, "PKG030")


@some(BUFFERS)
def test_a_buffer_of_another_length_is_refused(pair: Path, kind: Change) -> None:
    """A constant's buffer that is shorter or longer than its type is named with both lengths."""
    change_drafter(pair, kind)
    report = verified(pair, "lineage")
    assert ["PKG031"] == roots(report), explain_all(report)
    assert "64 bytes for tensor<" in told(report, "PKG031")


def test_a_buffer_of_the_targets_head_is_judged(pair: Path) -> None:
    """The head package's constants are as long as their types, those that are no part of the head included."""
    from tests.verify.programs import buffer

    change_program(pair / HEAD, buffer("h8", "norm", lambda size: size - 2))
    assert "PKG031" in failed(verified(pair, "lineage"))


@pytest.mark.parametrize("name", ["rows and vocabulary scrambled", "another eps", "no final norm"])
def test_a_head_that_computes_something_else_is_refused(pair: Path, name: str) -> None:
    """Right constants in another order, without the norm or with another are no head of the target's."""
    write_wired_head(pair / HEAD, pair / HEAD_FILE, tiny_profile().geometry, WRONG[name])
    report = verified(pair, "lineage")
    assert "HEAD020" in roots(report), explain_all(report)
    if name != "another eps":  # what is not the head is no witness of it
        assert ("not-evaluated", "HEAD020") == (check_of(report, "HEAD004").status, check_of(report, "HEAD004").cause)


def test_another_entry_point_of_the_head_is_refused(pair: Path) -> None:
    """The head package has one entry point, which the runtime calls by its name."""
    write_wired_head(pair / HEAD, pair / HEAD_FILE, tiny_profile().geometry, RIGHT["our own"], name="h9")
    assert "h8 alone" in told(verified(pair, "lineage"), "HEAD021")


def test_a_head_that_overflows_is_refused_when_it_runs(pair: Path) -> None:
    """A graph that is right on paper and overflows in float16 fails at depth run alone."""
    write_wired_head(pair / HEAD, pair / HEAD_FILE, tiny_profile().geometry, overflowing)
    report = verified(pair, "run")
    assert ("pass", "fail") == (check_of(report, "HEAD020").status, check_of(report, "HEAD024").status)


def test_another_layout_of_the_heads_input_is_refused(pair: Path) -> None:
    """A port of the head package that is delegated under another name is named."""
    change_program(pair / HEAD, port_attribute("h8", "arg_attrs", 0, "coreai.delegate_mapped_name", "y"))
    assert "coreai.delegate_mapped_name" in told(verified(pair, "lineage"), "HEAD021")


def test_another_gain_is_refused_and_a_missing_source_is_told(pair: Path) -> None:
    """The norm's gain is the export's to float16's rounding; without a source the report says that nobody judged."""
    gain = np.ones(tiny_profile().geometry.hidden, np.float16)
    gain[3] = 1.25
    write_final_norm(pair / LAST_LAYER, gain)
    report = verified(pair, "lineage")
    assert ["HEAD022"] == roots(report), explain_all(report)
    assert "channel 3: 1.25" in told(report, "HEAD022")
    (pair / LAST_LAYER).write_bytes(b"another")
    assert "not checked" in told(verified(pair, "lineage"), "HEAD023")


@pytest.mark.parametrize(("weight", "status"), [(0.0, "pass"), (1.0, "fail")])
def test_the_second_repositorys_norm_is_zero_centred(pair: Path, weight: float, status: str) -> None:
    """Model/small.safetensors holds w where the gain is 1 + w: it counts where the export has no gain."""
    (pair / LAST_LAYER).write_bytes(b"another")
    hidden = tiny_profile().geometry.hidden
    name = "model.language_model.norm.weight"
    with SafetensorsWriter(pair / "target/model/small.safetensors", {name: ("F32", (hidden,))}, {}) as out:
        out.write(name, np.full(hidden, weight, np.float32))
    report = verified(pair, "lineage")
    assert (status, "pass") == (check_of(report, "HEAD022").status, check_of(report, "HEAD023").status)


CHUNK = "target/coreai/chunk_L00-03.aimodel"
TAPS = {
    "in text order": (("tap10", "tap8", "y"), 32, "TAP020"),
    "descending": (("y", "tap3", "tap1"), 32, "TAP020"),
    "half as wide": (("y", "tap1"), 16, "TAP021"),
    "under a padded name": (("y", "tap01"), 32, "TAP022"),
}


@some(TAPS)
def test_taps_of_a_chunk_are_judged_as_outputs(pair: Path, kind: tuple[tuple[str, ...], int, str]) -> None:
    """Taps ascend as numbers and are rows of the hidden size, each under its plain name."""
    outputs, hidden, rule = kind
    shutil.rmtree(pair / CHUNK)
    entries = {"v8_1k": 8, "p64_1k": 64}
    author_chunk_standin(pair / CHUNK, hidden=hidden, entries=entries, outputs=outputs, metadata=METADATA)
    assert rule in failed(verified(pair, "lineage"))


def test_taps_may_stand_anywhere_beside_other_outputs(pair: Path) -> None:
    """Y before, between or after the taps is legal."""
    shutil.rmtree(pair / CHUNK)
    entries = {"v8_1k": 8, "p64_1k": 64}
    author_chunk_standin(pair / CHUNK, hidden=32, entries=entries, outputs=("tap1", "y", "tap3"), metadata=METADATA)
    assert not any(ident.startswith("TAP") for ident in failed(verified(pair, "lineage")))


def test_rows_of_a_tap_are_its_entrys(pair: Path) -> None:
    """An entry point for 64 rows that returns taps of 8 is refused."""
    shutil.rmtree(pair / CHUNK)
    author_chunk_standin(
        pair / CHUNK, hidden=32, entries={"v8_1k": 8, "p64_1k": 8}, outputs=("y", "tap1"), metadata=METADATA
    )
    assert "F16[1, 32, 1, 64]" in told(verified(pair, "lineage"), "TAP021")


def test_a_layout_of_a_tap_is_refused(pair: Path) -> None:
    """A tap that is delegated under another name is named."""
    change_program(pair / CHUNK, port_attribute("v8_1k", "res_attrs", 1, "coreai.delegate_mapped_name", "y"))
    assert "coreai.delegate_mapped_name" in told(verified(pair, "lineage"), "TAP022")
