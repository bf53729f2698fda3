"""What traces of this project say of themselves: the drafter, target and settings they were recorded with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forgepack.canonical import parse_object
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError

KIND = DocumentKind(
    name="forgepack.traces",
    title="identity of traces",
    remake="record the traces again, or leave the identity out: they are then taken as unbound",
    code="traces-identity",
)
TAP_CONVENTION = "layer_output_zero_based"
_HEX = re.compile(r"[0-9a-f]{64}")
_TEXTS = ("split", "generator")
_TARGET = ("lm_head_sha256", "tokenizer_sha256", "embedding_sha256")


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
    """Parse the identity's JSON; CorruptError names the field that is missing, unknown or of a wrong type."""
    raw = KIND.current(parse_object(data, where=where), where=where)
    _check_keys(raw, {"schema", "mask_scale", "taps", "tap_convention", "drafter", "target", *_TEXTS}, where)
    drafter, target = _inner(raw, "drafter", where), _inner(raw, "target", where)
    _check_keys(drafter, {"model_sha256"}, f"{where}: drafter")
    _check_keys(target, {"export", *_TARGET}, f"{where}: target")
    taps, scale = raw["taps"], raw["mask_scale"]
    _demand(raw["tap_convention"] == TAP_CONVENTION, "tap_convention", TAP_CONVENTION, raw["tap_convention"], where)
    _demand(isinstance(taps, list) and all(type(t) is int for t in taps), "taps", "integers", taps, where)
    _demand(type(scale) in (int, float) and 0 < scale <= 1, "mask_scale", "over 0, at most 1", scale, where)
    for key in _TEXTS:
        _demand(isinstance(raw[key], str), key, "a text", raw[key], where)
    _demand(isinstance(target["export"], str), "target.export", "a text", target["export"], where)
    digests = {"model_sha256": drafter["model_sha256"], **{k: target[k] for k in _TARGET}}
    for key, value in digests.items():
        _demand(isinstance(value, str) and _HEX.fullmatch(value) is not None, key, "64 hex digits", value, where)
    return TraceIdentity(
        model_sha256=drafter["model_sha256"],
        export=target["export"],
        head_sha256=target["lm_head_sha256"],
        tokenizer_sha256=target["tokenizer_sha256"],
        embedding_sha256=target["embedding_sha256"],
        mask_scale=float(scale),
        taps=tuple(taps),
        raw=raw,
    )


def _inner(raw: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    value = raw[key]
    if not isinstance(value, dict):
        raise _fault(key, "an object", value, where)
    return value


def _check_keys(raw: Mapping[str, Any], expected: set[str], where: str) -> None:
    for key in sorted(expected ^ set(raw)):
        raise _fault(key, "present" if key in expected else "absent", raw.get(key, "absent"), where)


def _demand(holds: bool, key: str, expected: str, found: Any, where: str) -> None:
    if not holds:
        raise _fault(key, expected, found, where)


def _fault(key: str, expected: str, found: Any, where: str) -> CorruptError:
    return CorruptError(
        "the traces' identity is not one that this tool writes",
        where=f"{where}: {key}",
        expected=expected,
        found=repr(found)[:80],
        hint=KIND.remake,
        code=KIND.code,
    )
