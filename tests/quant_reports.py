"""Parts of a quantization's report that tests write by hand: valid under its schema, about nothing real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.tokenizer import read_tokenizer

_ERROR = {"quantized": 0.01, "rtn": 0.1}
_ERRORS = {"calibration": _ERROR, "held_out": _ERROR}
_FITTING = {"subnormal": 0, "overflow": 0}
_COUNTS = {"rows": 8, "held_out_rows": 8, "dead_columns": 0, "damping": 0.01}
MATRICES: dict[str, Any] = {
    "fc.weight": {
        "format": "lut4",
        "shape": [32, 96],
        "error": _ERRORS,
        "folds": {"lut": _FITTING, "scale": _FITTING},
        **_COUNTS,
    }
}
RESULT: dict[str, Any] = {
    "matrices": MATRICES,
    "totals": {"lut4": {"matrices": 1, **_ERRORS}, "int8": {"matrices": 0, **_ERRORS}},
    "numerics": {"blas": ["openblas"], "blas_threads": 1, "numpy": "2", "scipy": "1"},
}


def traces_of(sha256: str, *, bound: bool) -> dict[str, Any]:
    """Return what a report says of traces; ``bound`` ones carry an identity, which no reader looks into."""
    return {
        "traces_sha256": sha256,
        "bytes": 1,
        "bound": bound,
        "identity": {} if bound else None,
        "sequences": [0],
        "blocks": 1,
        "context_rows": 8,
        "ignored_cycles": 0,
        "rows_beyond_tokens": 0,
    }


def both_traces(sha256: str, *, bound: bool) -> dict[str, Any]:
    """Return the inputs calibration and held_out of the same traces."""
    traces, samples = traces_of(sha256, bound=bound), {"ngram": 8, "every": 1}
    return {
        "calibration": {**traces, "fingerprint": {**samples, "sequences": []}},
        "held_out": {**traces, "source": "split", "overlap": {**samples, "equal": 0, "copied": 0, "share": 0.125}},
    }


def target_of(root: Path, export: str) -> dict[str, Any]:
    """Return what a report says of a target's release root."""
    files = {
        "manifest": root / "coreai/manifest.json",
        "config": root / "model/config.json",
        "head": root / "export" / export / "lm_head.safetensors",
        "embedding": root / "model/embed_tokens_fp16.npy",
        "tokenizer": root / "model/tokenizer.json",
    }
    digests = {f"{name}_sha256": hash_file(path)[1] for name, path in files.items()}
    meaning = read_tokenizer(root / "model").semantic_sha256
    return {"export": export, **digests, "tokenizer_semantic_sha256": meaning}
