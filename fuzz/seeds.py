"""The good files that inputs start from, made in a pair's folder where they are not in it."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from forgepack.profile import Profile

Seed = Callable[[Path, Profile], bytes]
STEM = "dflash2_lut4_gptq"
_DIGEST = "ab" * 32

TOML = b"""profile = "mini"
checkpoint = "checkpoint"
traces = "calib.npz"
[verify]
depth = "lineage"
strict = true
deny = ["deny.json"]
timeout = 30
[fetch]
offline = true
"""
POLICY = f"""schema = "forgepack.gate_policy/2"
[workload]
name = "sixteen mixed prompts"
traces_sha256 = "{_DIGEST}"
target_sha256 = "{_DIGEST}"
[sample]
sequences = 16
[acceptance]
mean = 2.0
"""
WAIVERS = {
    "waiver": [
        {
            "rule": "PATH006",
            "subject": "drafter/.DS_Store",
            "digest": _DIGEST,
            "reason": "known to legal",
            "owner": "release@example.org",
            "expires": "2030-06-15",
        }
    ]
}
DENIED = {"deny": [{"sha256": _DIGEST, "reason": "withdrawn"}]}
TIMINGS = {
    "schema": "forgepack.timings/1",
    "device": "one of these days",
    "verify_unit": "gpu",
    "draft_ms": 3.5,
    "target_ms": 41.0,
    "live_acceptance": 0.5,
    "drafter_sha256": _DIGEST,
}
IDENTITY = {
    "schema": "forgepack.traces/1",
    "mask_scale": 0.7,
    "taps": [1, 3, 6],
    "tap_convention": "layer_output_zero_based",
    "drafter": {"model_sha256": _DIGEST},
    "target": {
        "export": "tiny_lr64mix",
        "lm_head_sha256": _DIGEST,
        "tokenizer_sha256": _DIGEST,
        "embedding_sha256": _DIGEST,
    },
    "split": "calibration",
    "generator": "seed 1",
}
MIL = """program(1.3)
[buildInfo = dict<string, string>({{"coremlc-version", "3500.14.1"}})]
{
    func main<ios18>(tensor<fp16, [1, 16, 1, 8]> feat, state<tensor<fp16, [1, 8]>> cache) {
        tensor<fp16, [32, 16, 1, 1]> w = constexpr_lut_to_dense(indices = tensor<uint4, [32, 16, 1, 1]>(BLOBFILE(\
path = string("@model_path/weights/weight.bin"), offset = uint64(64))), lut = tensor<fp16, [1, 16, 1]>([0x1p+0]));
        tensor<fp16, [1, 32, 1, 8]> logits = conv(x = feat, weight = w)[name = string("logits")];
    } -> (logits);
}
"""


def of_pair(file: str) -> Seed:
    """Return the maker that takes a file of the pair."""
    return lambda pair, _profile: (pair / file).read_bytes()


def of_bundle(file: str) -> Seed:
    """Return the maker that takes a file of the pair's bundle, which is made once."""

    def make(pair: Path, profile: Profile) -> bytes:
        from forgepack.release.bundle.make import make_bundle
        from tests.release.bench import bundle_inputs

        root = pair.parent / f"{pair.name}-bundle"
        if not root.exists():
            make_bundle(bundle_inputs(pair), root, profile=profile)
        return (root / file).read_bytes()

    return make


def of_text(value: bytes | str) -> Seed:
    """Return the maker of a fixed text."""
    return lambda _pair, _profile: value.encode() if isinstance(value, str) else value


def of_json(value: object) -> Seed:
    """Return the maker of a fixed JSON value."""
    return of_text(json.dumps(value, indent=1))


def small_traces(_pair: Path, profile: Profile) -> bytes:
    """Return a trace archive of one short sequence."""
    g, handle = profile.geometry, io.BytesIO()
    rng = np.random.default_rng(3)
    arrays = {
        "tokens_0": rng.integers(0, g.vocab, 40).astype(np.int32),
        "plen_0": np.array(5),
        "feats_0": rng.normal(0, 1, (39, len(g.taps), g.hidden)).astype(np.float16),
        "m_0": np.array([1, 2, 3], np.int8),
    }
    np.savez(handle, **arrays)  # type: ignore[arg-type]
    return handle.getvalue()


def replayed(pair: Path, _profile: Profile) -> bytes:
    """Return the report of a replay of a synthetic drafter."""
    from forgepack.cli.main import run
    from tests.synthetic import profile_json
    from tests.synthetic_files import write_pair

    work = pair.parent / f"{pair.name}-replay"
    report = work / "report.json"
    if not report.exists():
        work.mkdir()
        root = write_pair(work / "pair")
        (root / "profile.json").write_text(json.dumps(profile_json()))
        named = ["--traces", str(root / "bound.npz"), "--target", str(root / "target"), "--workload", "synthetic"]
        command = ["--isolated", "replay", str(root / "checkpoint"), "-q"]
        profile = ["--profile", str(root / "profile.json")]
        with contextlib.redirect_stdout(io.StringIO()):
            assert run([*command, *named, *profile, "--report", str(report)]) == 0
    return report.read_bytes()


def locked_build(_pair: Path, _profile: Profile) -> bytes:
    """Return a build's lock with one step."""
    from forgepack.canonical import dump_canonical
    from forgepack.release.recipe.lock import BuildLock, StepRecord, step_key

    file = {"bytes": 3, "sha256": _DIGEST}
    inputs = {
        "checkpoint": {"repo": "tests/tiny", "commit": "ab" * 20, "files": {"config.json": file}},
        "documents": {"README.md": file},
        "given": {"waivers": file},
        "held_out": None,
        "options": {
            "bundle": {"export": True, "upstream": {"id": "tests/target", "revision": "ab" * 20}},
            "emit": {"created": 0},
            "quantize": {"method": "gptq", "mask_scale": 0.7, "deploy_mask_scale": 0.7},
            "verify": {"depth": "lineage", "strict": False},
        },
        "profile": {"name": "tiny", "sha256": _DIGEST},
        "target": {"model/config.json": file},
        "traces": file,
    }
    step = StepRecord(key=step_key("x"), files={"x.json": file, "metadata.json": {"content_sha256": _DIGEST}})
    return dump_canonical(BuildLock(inputs=inputs, steps={"emit": step}).as_json())


def blob(_pair: Path, _profile: Profile) -> bytes:
    """Return a weight.bin of two records: 4-bit indices and float16 values."""
    from forgepack.artifacts.mil_blob import ALIGNMENT, TYPES, VERSION

    kinds = sorted(TYPES)[:2]
    data = bytearray(struct.pack("<II", len(kinds), VERSION).ljust(ALIGNMENT, b"\0"))
    for kind in kinds:
        begin = len(data) + ALIGNMENT
        data += struct.pack("<IIQQQ", 0xDEADBEEF, kind, 64, begin, 0).ljust(ALIGNMENT, b"\0") + bytes(range(64))
    return bytes(data)


def attested(pair: Path, _profile: Profile) -> bytes:
    """Return the attestation of a sibling of the pair's target."""
    from tests.verify.attested import make_sibling, write_attestation

    root = pair.parent / f"{pair.name}-attested"
    if not root.exists():
        shutil.copytree(pair, root)
        make_sibling(root)
        write_attestation(root)
    return (root / "attestation.json").read_bytes()


def reported(pair: Path, _profile: Profile) -> bytes:
    """Return verify's report on the pair with one file too many, so that it has a finding."""
    from forgepack.canonical import dump_canonical
    from forgepack.render.json_report import report_json
    from tests.verify.running import verified

    root = pair.parent / f"{pair.name}-reported"
    if not root.exists():
        shutil.copytree(pair, root)
        (root / "drafter/x.safetensors").write_bytes(b"x")
    return dump_canonical(report_json(verified(root)))
