"""Fields of the target's documents that a pair was emitted over: nothing but their own rules can refuse a change.

Every change of manifest.json and of the target's config.json, and fields of both public releases that the miniature
does not have. Digests are made over whatever stood there, so rules that compare with the binding are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.mutation.json_mutants import json_mutants
from tests.mutation.stage import Mutant, Stage

_AREAS = ("CTR", "TAP", "VOC", "PATH", "FMT", "PKG", "HEAD")
_FILES = {"manifest fields": "target/coreai/manifest.json", "target fields": "target/model/config.json"}
# What the public releases state beside the miniature's fields.
_PUBLIC_CHUNK: dict[str, Any] = {"compiled": "chunk.aimodelc", "gdn_j": 4, "outputs": []}
_PUBLIC: dict[str, Any] = {"derived": {"soc": "m5", "from": "/x"}, "release": "0.2"}

LEGAL_FIELDS: tuple[tuple[str, str], ...] = (
    (
        r"(manifest|target) fields: the whole: (written again|keys in another order)",
        "space and the order of keys mean nothing in JSON",
    ),
    (r"(manifest|target) fields: ([\w.\[\]]+\.)?unknown_key: extra", "unknown keys are legal; CTR090 names them"),
    (
        r"manifest fields: (kv_cache|chunks\[\d+\]\.(numerics|gdn_j|taps)|release)\b.*: .*",
        "switches, counters and labels of the build are not judged; CTR090 names them",
    ),
    (
        r"manifest fields: (version|TP|pend|pctxs|kv_len(\.\d+)?|derived|.*compiled|.*outputs): missing",
        "optional in a manifest: a check of what is stated says nothing of what is not",
    ),
    (r"manifest fields: chunks\[\d+\]\.entries: (reordered|first two exchanged)", "entry points are found by name"),
    (r"manifest fields: kv_len: empty", "no length is stated"),
    (
        r"manifest fields: kv_len\.\d+: off by one( below)?",
        "fewer rows than the context are the runtime's own matter",
    ),
    (r"manifest fields: derived\.(soc|from): (value|in other case)", "a target by itself may be derived; CTR088"),
    (r"manifest fields: .*compiled: (value|in other case)", "a name is judged by whether it is there; CTR050"),
    (r"manifest fields: .*outputs\b.*: .*", "outputs that are no list of names state nothing; y may be a last layer"),
    (r"manifest fields: chunks\[\d+\]\.entries_by_soc\b.*: (missing|empty)", "a chip may have no entries of its own"),
    (r"manifest fields: version: off by one", "which versions there are is not known; CTR091 tells it as a note"),
    (
        r"target fields: (?!text_config\.(hidden_size|num_hidden_layers|vocab_size|eos_token_id)|text_config: ).*",
        "the target's own build computes with it; CTR090 names it",
    ),
    (r"target fields: text_config\.eos_token_id: (missing|null)", "end tokens may stand elsewhere"),
    (r"target fields: text_config\.eos_token_id: off by one", "another end token of the profile"),
)
TOLD_FIELDS: tuple[tuple[str, str], ...] = (
    (r"manifest fields: .*pctxs.*", "a prefill context without its entry is told, CTR089"),
    (r"manifest fields: chunks\[\d+\]\.entries.*", "a prefill entry that is gone is told, CTR089"),
)


def field_mutants(stage: Stage) -> Iterator[Mutant]:
    """Yield the mutants; the manifest's also of a form that states what the public releases do."""
    for subject, file in _FILES.items():
        data = (stage.root / file).read_bytes()
        for text in (data, *([_as_public(data)] if subject == "manifest fields" else [])):
            for one in json_mutants(text):
                yield Mutant(
                    subject=subject,
                    place=one.place,
                    kind=one.kind,
                    areas=_AREAS,
                    file=file,
                    make=one.make,
                    unbound=True,
                )


def _as_public(data: bytes) -> bytes:
    raw = json.loads(data)
    for chunk in raw["chunks"]:
        chunk |= {**_PUBLIC_CHUNK, "entries_by_soc": {"m5": {name: name for name in chunk["entries"]}}}
        first, last = chunk["layers"]
        taps = [tap for tap in raw["taps"] if first <= tap <= last]
        chunk["outputs"] = [*(f"tap{tap}" for tap in taps if tap != last), "y"]
    return json.dumps({**raw, **_PUBLIC}).encode()
