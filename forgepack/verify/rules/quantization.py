"""SRC, the quantization's part: tensors, report, recipe and traces of the quantized drafter belong together."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.artifacts.trace_overlap import parse_fingerprint
from forgepack.json_values import equal_json
from forgepack.verify.checks.binding import bound, stated_at
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.checks.recipe import recipe_differences
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_FINGERPRINT = "quantization.calibration.traces.fingerprint"
_OVERLAP = "quantization.calibration.held_out.overlap"


@rule(
    "SRC011",
    title="the quantized tensors are those of the report beside them",
    why="a report of another run vouches for nothing",
    remedy="quantize again",
    depth="hash",
    needs=("quant", "quant_report", "digests"),
    after=("NUM00",),
)
def quant_output(pair: Pair) -> Iterator[Finding]:
    """Size and SHA-256 of drafter_quant.safetensors are those that report.json states."""
    file, report = pair.quant.value, pair.quant_report.value
    found = pair.digests.value.get(file.path)
    if found is not None and (found.bytes, found.sha256) != (report.output_bytes, report.output_sha256):
        expected = f"{report.output_bytes} bytes, {report.output_sha256}"
        stated = f"{found.bytes} bytes, {found.sha256}"
        yield differing("quantized tensors", pair.place(file.path), expected=expected, found=stated)


@rule(
    "SRC012",
    title="the drafter was quantized by the profile's recipe",
    why="plain rounding or another mask scale gives a package that loads alike and drafts worse",
    remedy="quantize again with the profile's recipe",
    needs=("quant_report",),
)
def quant_recipe(pair: Pair) -> Iterator[Finding]:
    """Method, recipe, deployed mask scale, name and state of the profile in report.json are the profile's."""
    report, profile = pair.quant_report.value, pair.profile
    stated = {
        "method": ("gptq", report.method),
        "recipe.variant": (profile.recipe.variant, report.variant),
        "recipe.mask_scale.deployment": (profile.recipe.mask_scale, report.mask_scale),
        "profile.name": (profile.name, report.profile),
        "profile.sha256": (profile.digest, report.profile_sha256),
    }
    for path, (expected, found) in stated.items():
        if not equal_json(found, expected):
            message = f"it is of another profile: --profile {found}" if path == "profile.name" else ""
            where = pair.place(report.path, path)
            yield differing(f"{path} of the report", where, expected=expected, found=found, message=message)
    for path, expected, found in recipe_differences(profile, report.method, report.raw["recipe"]):
        where = pair.place(report.path, path)
        yield differing(f"{path} of the report", where, expected=expected, found=found)


@rule(
    "SRC013",
    title="the drafter was quantized from the given checkpoint",
    fails="the drafter was NOT quantized from the given checkpoint",
    why="a quantization of other weights is another drafter",
    remedy="name the checkpoint that was quantized, or quantize this one",
    needs=("quant_report", "lock"),
    after=(
        "SRC018",
        "SRC019",
    ),
)
def quant_checkpoint(pair: Pair) -> Iterator[Finding]:
    """Repository, commit, lock, adoption, weights and config in report.json are those of the checkpoint."""
    report, lock = pair.quant_report.value, pair.lock.value
    model, config = lock.file("model.safetensors"), lock.file("config.json")
    stated = {
        "repo": (lock.repo, report.repo),
        "commit": (lock.commit, report.commit),
        "adopted": (lock.adopted, report.adopted),
        "lock_sha256": (lock.digest, report.lock_sha256),
        "model_sha256": (None if model is None else model.sha256, report.model_sha256),
        "config_sha256": (None if config is None else config.sha256, report.config_sha256),
    }
    for key, (expected, found) in stated.items():
        if expected != found:
            where = pair.place(report.path, f"inputs.checkpoint.{key}")
            yield differing(f"{key} of the report", where, expected=expected, found=found)


@rule(
    "SRC014",
    title="the drafter was calibrated on the given target",
    fails="the drafter was NOT calibrated on the given target",
    why="a calibration with another head or embedding is legal history, but must be known",
    remedy="quantize again for this target, or accept the older calibration",
    severity="warning",
    depth="hash",
    needs=("quant_report", "digests"),
)
def quant_target(pair: Pair) -> Iterator[Finding]:
    """Head, embedding and tokenizer that report.json states are those of the target."""
    report, target = pair.quant_report.value, pair.sources.target
    files = {
        "head_sha256": (target.export, "lm_head.safetensors", report.head_sha256),
        "embedding_sha256": (target.model, "embed_tokens_fp16.npy", report.embedding_sha256),
        "tokenizer_sha256": (target.model, "tokenizer.json", report.tokenizer_sha256),
    }
    for key, (folder, name, stated) in files.items():
        found = None if folder is None else pair.digests.value.get(folder / name)
        if found is not None and found.sha256 != stated:
            _demand_readable(pair, key)
            where = pair.place(report.path, f"inputs.target.{key}")
            yield differing(f"{key} of the report", where, expected=found.sha256, found=stated)


def _demand_readable(pair: Pair, key: str) -> None:
    """Raise UnavailableError for a file that is damaged: it is not another target's."""
    _ = pair.input(
        {"head_sha256": "head", "embedding_sha256": "embedding", "tokenizer_sha256": "tokenizer"}[key]
    ).value


@rule(
    "SRC015",
    title="the calibration's traces say what they were recorded with",
    why="traces without an identity may be of another target or drafter: nothing shows which",
    remedy="record traces with this project's tools",
    severity="note",
    needs=("quant_report",),
)
def traces_bound(pair: Pair) -> Iterator[Finding]:
    """The traces of the calibration carried an identity."""
    report = pair.quant_report.value
    if not report.traces_bound:
        where = pair.place(report.path, "inputs.calibration.bound")
        yield differing("traces of the calibration", where, expected="an identity", found="none")


@rule(
    "SRC034",
    title="the binding says which sequences calibrated",
    why="without it no one can say whether a workload that measures the drafter also calibrated it",
    remedy="quantize and emit again; until then, keep the calibration's traces apart",
    severity="note",
    needs=("binding",),
    since=2,
)
def calibration_known(pair: Pair) -> Iterator[Finding]:
    """The traces are bound with a fingerprint and what held-out shares with it, which version 1 did not write."""
    told = ((_FINGERPRINT, "calibration's sequences", "a fingerprint"), (_OVERLAP, "held-out's share", "an overlap"))
    for path, subject, expected in told:
        if bound(pair, path) is None:
            yield differing(subject, stated_at(pair, path), expected=expected, found=None)


@rule(
    "SRC035",
    title="the held-out sequences that the binding reports on did not calibrate",
    fails="held-out sequences that the binding reports on also calibrated",
    why="errors on rows that calibrated are better than honest ones, and look like those",
    remedy="quantize again with held-out traces of their own, and emit again",
    needs=("binding",),
    since=2,
    closes="held-out sequences that calibrate passed",
)
def held_out_apart(pair: Pair) -> Iterator[Finding]:
    """The binding's overlap counts no equal sequence and no copy, and its fingerprint can be read."""
    stated = bound(pair, _FINGERPRINT)
    if stated is not None and parse_fingerprint(stated) is None:
        where, expected = stated_at(pair, _FINGERPRINT), "a fingerprint of this version"
        yield differing("calibration's sequences", where, expected=expected, found=stated)
    for key in ("equal", "copied"):
        path = f"{_OVERLAP}.{key}"
        count = bound(pair, path)
        if count is not None and not equal_json(count, 0):
            yield differing(f"{key} held-out sequences", stated_at(pair, path), expected=0, found=count)


ROWS = (
    reported_row(
        "SRC010",
        demand="report.json of a given quantized drafter is well formed.",
        title="the quantized drafter has a valid report and nothing else beside its tensors",
        fails="the quantized drafter has no valid report, or other files beside its tensors",
        why="without the report nothing says from which inputs and by which recipe it was made",
        remedy="quantize again",
        codes=("quant-report", "quant-unexpected"),
    ),
    reported_row(
        "SRC023",
        demand="The file of --traces can be read and its sequences have the profile's feature width.",
        title="the given traces are well formed and of this geometry",
        why="features of other taps or widths, or a schedule that does not fit its tokens, measure nothing",
        remedy="name traces that were recorded with this target and drafter",
        depth="run",
        codes=(
            *("npz", "traces-empty", "traces-form", "traces-identity", "traces-key"),
            *("traces-range", "traces-schedule"),
        ),
    ),
)
