"""What traces of this project say of themselves: the drafter, target and settings they were recorded with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forgepack.canonical import parse_object
from forgepack.document import DocumentKind

KIND = DocumentKind(
    name="forgepack.traces",
    title="identity of traces",
    remake="record the traces again, or leave the identity out: they are then taken as unbound",
    code="traces-identity",
    form="traces",
)
TAP_CONVENTION = "layer_output_zero_based"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceIdentity:
    """The identity that a trace file carries; digests are sha256 hex of whole files.

    ``mask_scale`` is the one that the recorded drafts were made with; ``raw`` is the object as written.
    """

    model_sha256: str
    export: str
    head_sha256: str
    tokenizer_sha256: str
    embedding_sha256: str
    mask_scale: float
    taps: tuple[int, ...]
    raw: Mapping[str, Any]


def parse_identity(data: bytes, *, where: str) -> TraceIdentity:
    """Parse the identity's JSON; CorruptError names the field that is missing, unknown or of another form."""
    raw = KIND.judged(parse_object(data, where=where), where=where)
    target = raw["target"]
    return TraceIdentity(
        model_sha256=raw["drafter"]["model_sha256"],
        export=target["export"],
        head_sha256=target["lm_head_sha256"],
        tokenizer_sha256=target["tokenizer_sha256"],
        embedding_sha256=target["embedding_sha256"],
        mask_scale=float(raw["mask_scale"]),
        taps=tuple(raw["taps"]),
        raw=raw,
    )
