"""Fields of a target's manifest: forms as the schema has them, and what contradicts what."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from forgepack.artifacts.manifest_fields import differences, form_faults, prefill_gaps
from forgepack.miniature.data import find_miniature
from tests.mutation.json_mutants import changes
from tests.schemas import is_refused

CHUNK = {
    "file": "chunk_L00-03.aimodel",
    "layers": [0, 3],
    "entries": ["v8_8k", "v8_8k_m5", "p64_8k", "p64_8k_m5", "v8_64k", "v8_64k_m5", "p64_64k", "p64_64k_m5"],
    "entries_by_soc": {"m5": {"v8_8k": "v8_8k_m5", "p64_8k": "p64_8k_m5"}},
    "taps": [1],
    "numerics": {"ATT_INT8MM": "s8,s8b,sm8,pvf8", "KV_KEYS_T": True},
    "compiled": "chunk_L00-03.aimodelc",
    "gdn_j": 4,
    "mb": 812,
}
# As the second public release states them; names are shortened.
SECOND: dict[str, Any] = {
    "version": 1,
    "T": 8,
    "TP": 64,
    "pend": 8,
    "taps": [1],
    "ctxs": [8192, 65536],
    "pctxs": [8192, 65536],
    "kv_len": {"8192": 8128, "65536": 65472},
    "kv_cache": {"format": "v8"},
    "export": "release_x",
    "chunks": [CHUNK],
    "head": {"file": "head_T8.aimodel", "compiled": "head_T8.aimodelc"},
    "derived": {"soc": "m5", "from": "/somewhere"},
    "release": "0.2",
}
FORMS = ("version", "TP", "pend", "pctxs", "kv_len", "kv_cache", "derived")


def test_genuine_manifests_have_no_fault() -> None:
    """The miniature's manifest, one of the second release's form, and one without optional fields are consistent."""
    mini = json.loads((find_miniature().target / "coreai/manifest.json").read_bytes())
    least = {key: SECOND[key] for key in ("T", "taps", "ctxs", "export", "chunks", "head")}
    for raw in (mini, SECOND, least):
        assert [] == [*form_faults(raw), *differences(raw), *prefill_gaps(raw)]


@pytest.mark.parametrize("field", FORMS)
def test_forms_are_those_of_the_schema(field: str) -> None:
    """Whatever is put in place of a field, it is refused if and only if another implementation refuses it."""
    values = [other for _, other in changes(SECOND[field])]
    values += [8.0, 0, -1, True, "8", "x", [], ["x"], [1, 1], {"x": 1}, {"8192": 0}, {"8192": 8.0}, None, 99]
    for value in values:
        raw = {**SECOND, field: value}
        assert bool(list(form_faults(raw))) == is_refused(raw, "manifest"), value


DIFFERENCES: dict[str, tuple[str, Any, str]] = {
    "pending rows": ("pend", 4, "pend"),
    "prefill rows": ("TP", 7, "chunks[0].entries"),
    "no such context": ("kv_len", {"4096": 4000}, "kv_len.4096"),
    "more rows than the context": ("kv_len", {"8192": 8193}, "kv_len.8192"),
    "context without a name": ("pctxs", [8192, 9000], "pctxs"),
    "entries of a context that is not built": ("ctxs", [8192], "chunks[0].entries"),
    "package of the head and of a chunk": ("head", {"file": "chunk_L00-03.aimodel"}, "chunks"),
    "chip's entry that is none": (
        "chunks",
        [{**CHUNK, "entries_by_soc": {"m5": {"v8_8k": "v8_8k_m6"}}}],
        "chunks[0].entries_by_soc.m5.v8_8k",
    ),
    "chip's entry of the whole build": ("entries_by_soc", {"m5": {"x": "v8_8k"}}, "entries_by_soc.m5.x"),
    "entry twice": ("chunks", [{**CHUNK, "entries": [*CHUNK["entries"], "v8_8k"]}], "chunks[0].entries"),  # type: ignore[misc]
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_contradiction_is_named_by_its_field(name: str) -> None:
    """Each field that another contradicts is found, at its path."""
    key, value, path = DIFFERENCES[name]
    raw = {**copy.deepcopy(SECOND), key: value}
    if name == "entries of a context that is not built":
        raw["pctxs"] = [8192]
    assert [path] == sorted({where for where, _, _ in differences(raw)} - {"kv_len.65536"})


def test_a_prefill_context_needs_its_entries() -> None:
    """A context for which a chunk has no prefill entry is named with the entries that are missing."""
    raw = {**SECOND, "pctxs": [8192, 16384], "ctxs": [8192, 16384]}
    assert [("chunks[0].entries", ["p64_16k"], CHUNK["entries"])] == list(prefill_gaps(raw))


def test_a_manifest_that_its_reader_took_never_raises() -> None:
    """Whatever stands in the fields that the reader leaves alone, judging them ends."""
    for key in (*FORMS, "entries_by_soc", "release"):
        values: tuple[Any, ...] = (None, [], {}, "x", 1.5, True, [[]], {"a": {"b": None}}, {"²": 1})
        for value in values:
            raw = {**SECOND, key: value}
            assert isinstance([*form_faults(raw), *differences(raw), *prefill_gaps(raw)], list)
