"""A replay's report as table and picture."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from forgepack.render.replay_plot import replay_svg
from forgepack.render.replay_text import letter, replay_lines
from forgepack.render.svg import Canvas, Panel

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = 'a<b>&"\x1b[31m\u202e::error ::x\n'


def estimate(mean: float) -> dict[str, Any]:
    return {"mean": mean, "standard_error": 0.1, "interval": [mean - 0.2, mean + 0.2]}


def drafter(number: int, *, compared: bool, path: str = "quant") -> dict[str, Any]:
    buckets = [
        {"from": low, "to": high, "ring": ring, "blocks": 4, **estimate(0.5 * (number + 1))}
        for low, high, ring in ((16, 32, "whole"), (32, 64, "whole"), (64, 128, "beyond"))
    ]
    out: dict[str, Any] = {
        "role": "compared" if compared else "reference",
        "path": path,
        "kind": "quant",
        "mask_scale": 0.7,
        "deployed_mask_scale": True,
        "calibration": {"state": "none"},
        "recorded": {"state": "unknown"},
        "acceptance": {
            **estimate(2.0),
            "at_least": [0.9, 0.7, 0.4],
            "histogram": [1, 2, 3, 4],
            "blocks": 10,
            "tokens_per_call": 3.0,
        },
        "by_position": {"accepted": buckets},
        "ring": {"accepted": {"change": estimate(-0.5)}},
        "per_sequence": [{"sequence": 0, "blocks": 10, "accepted": 20}],
    }
    if compared:
        out |= {"difference": estimate(0.1), "agreement": {**estimate(0.8), "at_least": [1.0, 0.9, 0.8]}}
        out["by_position"]["agreement"] = buckets[1:]
        out["per_sequence"][0] |= {"reference_blocks": 10, "equal_blocks": 8}
    return out


def report(*drafters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "target": {"export": "e", "head_sha256": "ab" * 32},
        "traces": {"sha256": "cd" * 32, "sequences": 1},
        "statistics": {"confidence": 0.95},
        "ring_rows": 64,
        "drafters": list(drafters),
        **more,
    }


def words(picture: bytes) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_the_picture_has_a_mark_for_every_value() -> None:
    """Shares are dots, the histogram bars, intervals lines; the ring's edge is named."""
    picture = replay_svg(report(drafter(0, compared=False), drafter(1, compared=True), workload="mine"))
    root = ElementTree.fromstring(picture)
    # A dot for each share and each bucket: 3 + 3 of the reference; 3 + 3 + 2 of the compared one.
    assert 14 == len(list(root.iter(f"{SVG}circle")))
    # The ground, a legend box for each drafter, a bar for each m of each drafter.
    assert 1 + 2 + 8 == len(list(root.iter(f"{SVG}rect")))
    text = words(picture)
    assert 2 == text.count("beyond the ring of 64")
    assert {"mine", "16-31", "64-127"} <= set(text)


def test_a_reference_alone_is_drawn_with_its_sequences() -> None:
    """Without a comparison the fourth panel shows the sequences."""
    assert any("by sequence" in text for text in words(replay_svg(report(drafter(0, compared=False)))))


def test_no_value_leaves_the_picture() -> None:
    """Ten drafters and values beyond the axes stay inside the frame."""
    wild = drafter(1, compared=True)
    wild["by_position"]["accepted"][0] |= {"mean": 99.0, "interval": [-5.0, 500.0]}
    root = ElementTree.fromstring(replay_svg(report(drafter(0, compared=False), *[wild] * 9)))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for element in root.iter():
        for name, value in element.attrib.items():
            if name in ("x", "x1", "x2", "cx"):
                assert 0 <= float(value) <= width
            if name in ("y", "y1", "y2", "cy"):
                assert 0 <= float(value) <= height


def test_names_from_files_stay_names() -> None:
    """Markup, escapes and workflow commands in a name are shown, in picture and table."""
    hostile = report(drafter(0, compared=False, path=HOSTILE), workload=HOSTILE)
    picture = replay_svg(hostile)
    assert b"<b>" not in picture
    assert b"\x1b" not in picture
    assert any("a<b>&" in text for text in words(picture))
    lines = replay_lines(hostile)
    assert not any(re.search(r"[\x00-\x1f\u202e]", line) for line in lines)
    assert not any(line.lstrip().startswith("::") for line in lines)


def test_the_table_names_drafters_by_letters() -> None:
    """A is the reference; the other one's line says what it is held against; sequences come when asked for."""
    both = report(drafter(0, compared=False), drafter(1, compared=True))
    lines = replay_lines(both)
    assert "A  quant quant" in lines
    assert any(line.startswith("   against A: +0.100 [-0.10, 0.30] accepted") for line in lines)
    assert not any("by sequence" in line for line in lines)
    assert "     0  A 20 in 10  B 20 in 10 (8/10)" in replay_lines(both, sequences=True)
    assert ("A", "Z", "#27") == (letter(0), letter(25), letter(26))


@pytest.mark.parametrize("value", [-3.0, 0.0, 0.5, 2.0])
def test_a_panel_of_no_range_is_still_a_panel(value: float) -> None:
    """An empty range maps everything to one edge instead of dividing by 0."""
    canvas = Canvas(width=10, height=10, title="t")
    panel = Panel(canvas=canvas, corner=(1, 1), size=(8, 8), across=(0, 0), up=(1, 1))
    assert (1.0, 9.0) == panel.at(value, value)
