"""From a published checkpoint to a drafter package: fetch, adopt, quantize, emit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forgepack.calls.values import (
    Listener,
    StrPath,
    TargetName,
    check_out,
    counter,
    effects_of,
    optional,
    parts_of,
    settings_of,
)
from forgepack.profile import DEFAULT_PROFILE, load_profile

if TYPE_CHECKING:
    from forgepack.emit.package import EmitResult
    from forgepack.hub import FetchReport
    from forgepack.quantize.run import QuantizeResult


def fetch(
    out: StrPath,
    *,
    profile: str = DEFAULT_PROFILE,
    revision: str | None = None,
    offline: bool = False,
    endpoint: str | None = None,
    token: str | None = None,
    timeout: float = 30.0,
    force: bool = False,
    progress: Listener | None = None,
) -> FetchReport:
    """Download the profile's checkpoint at its pinned commit into the folder ``out``, and lock it.

    Each file is hashed while it arrives and compared with the hub's record of the commit; a download that was cut
    continues in the next call. A complete folder is compared with its lock, byte by byte, and nothing is downloaded.
    With ``offline`` this comparison is all that is done, and no network is used.

    ``revision`` is a full commit; every reader refuses one that the profile does not pin. ``endpoint`` is the hub's
    address, by default https://huggingface.co. Without ``token`` none is sent. ``timeout`` is the longest wait for an
    answer or for more bytes, in seconds. ``force`` replaces files and a lock that differ.

    Raises UsageError for a revision that is not a full commit, IdentityError for other bytes than the lock's or the
    hub's, HubError where hub or network fail, OutputError where the disk does.

    >>> report = api.fetch("checkpoint", endpoint=HUB, profile="mini")
    >>> [file.path for file in report.files]
    ['LICENSE', 'NOTICE', 'README.md', 'config.json', 'model.safetensors']
    >>> {file.action for file in api.fetch("checkpoint", offline=True, profile="mini").files}
    {'verified'}
    """
    from forgepack import hub

    loaded, effects = load_profile(profile), effects_of(progress)
    request = hub.FetchRequest(profile=loaded, out=Path(out), revision=revision, force=force)
    if offline:
        return hub.verify_checkpoint(request, effects)
    return hub.fetch_checkpoint(request, settings=settings_of(endpoint, token, timeout), effects=effects)


def adopt(
    source: StrPath,
    *,
    out: StrPath | None = None,
    profile: str = DEFAULT_PROFILE,
    revision: str | None = None,
    force: bool = False,
    progress: Listener | None = None,
) -> FetchReport:
    """Take in a checkpoint folder that was obtained otherwise: check its files, hash them, lock them.

    With ``out`` the files are copied there and ``source`` is left alone; without it the lock is written into
    ``source``. The lock says that the bytes were not compared with the hub's record, and every later verification
    warns of it, unless the profile pins the files' digests. ``force`` replaces a lock that says otherwise.

    Raises UsageError for a folder that does not exist, MissingError, CorruptError and IdentityError for files that
    are not the checkpoint's, OutputError where the disk fails.

    >>> report = api.adopt("mini/checkpoint", out="adopted", profile="mini")
    >>> report.adopted, report.root.name
    (True, 'adopted')
    """
    from forgepack import hub

    request = hub.AdoptRequest(
        profile=load_profile(profile), source=Path(source), out=optional(out), revision=revision, force=force
    )
    return hub.adopt_checkpoint(request, effects=effects_of(progress))


def quantize(
    checkpoint: StrPath,
    out: StrPath,
    *,
    traces: StrPath,
    target: TargetName,
    held_out: StrPath | None = None,
    profile: str = DEFAULT_PROFILE,
    method: Literal["gptq", "rtn"] = "gptq",
    mask_scale: float | None = None,
    deployed_mask_scale: float | None = None,
    threads: int = 1,
    force: bool = False,
    progress: Listener | None = None,
) -> QuantizeResult:
    """Quantize a checkpoint into the folder ``out``: LUT4 by GPTQ, kernel projections INT8 by rounding.

    ``out`` holds drafter_quant.safetensors and report.json, whose content is the result's ``report``: for each matrix
    the relative output error on calibration rows and on rows that it never saw, beside plain rounding's. ``traces``
    calibrate; ``held_out`` is for evaluation only, and without it every sixth sequence is held out. ``method`` "rtn"
    rounds every weight to its nearest code, which ``emit`` refuses. Mask scales are over 0 and at most 1; None is the
    profile's, and deploys the one that calibrated. The result does not depend on ``threads`` (1 to 64). A run that
    was killed continues from its last finished matrix.

    Raises UsageError for an existing ``out`` without ``force``, IdentityError for inputs that do not belong together,
    NumericsError for values that can't be computed with, OutputError where writing fails.

    >>> result = api.quantize(
    ...     "checkpoint",
    ...     "quant",
    ...     traces="mini/traces/calib.npz",
    ...     held_out="mini/traces/heldout.npz",
    ...     target="mini/target",
    ...     profile="mini",
    ... )
    >>> error = result.report["totals"]["lut4"]["held_out"]
    >>> error["quantized"] < error["rtn"]
    True
    """
    from forgepack.quantize import run
    from forgepack.quantize.recipe import Options
    from forgepack.quantize.sources import SourcePaths, open_sources

    loaded, tell = load_profile(profile), counter(progress)
    options = Options(
        method=method,
        mask_scale=mask_scale,
        deployed_mask_scale=deployed_mask_scale,
        threads=threads,
        force=force,
    )
    check_out(Path(out), force=force)
    paths = SourcePaths(
        checkpoint=Path(checkpoint), target=parts_of(target), traces=Path(traces), held_out=optional(held_out)
    )
    return run.quantize(
        open_sources(paths, loaded),
        Path(out),
        profile=loaded,
        options=options,
        progress=lambda now: tell("quantize", now.done, now.total, now.name),
    )


def emit(
    quant: StrPath,
    out: StrPath,
    *,
    checkpoint: StrPath,
    target: TargetName,
    profile: str = DEFAULT_PROFILE,
    created: int | None = None,
    allow_links: bool = False,
    force: bool = False,
    progress: Listener | None = None,
) -> EmitResult:
    """Emit the drafter package of a quantization into the folder ``out``: asset, sidecar, codebooks, licences.

    The verifier's rules check the inputs by their headers first, then every byte is hashed: quantization, checkpoint
    and target must belong together. The same inputs give the same bytes. ``created`` is the only date in them, in
    seconds since 1970, and fixed by default. ``allow_links`` follows symbolic links to files, as in a hub's cache.
    ``warnings`` of the result name what is legal and should be known.

    Raises IdentityError for inputs that a rule refuses, UsageError for an existing ``out`` without ``force``,
    NumericsError for values that float16 can't hold, PlatformError where Core AI's package is missing, OutputError
    where writing fails.

    >>> result = api.emit("quant", "drafter", checkpoint="checkpoint", target="mini/target", profile="mini")
    >>> result.asset.name, result.sidecar_file.name
    ('dflash2_lut4_gptq.aimodel', 'dflash2_lut4_gptq.json')
    >>> result.warnings
    ()
    """
    from forgepack.artifacts.target_parts import find_target
    from forgepack.coreai_backend.asset_writer import FIXED_DATE
    from forgepack.verify.emission import InputPaths, emit_paths

    loaded, tell, parts = load_profile(profile), counter(progress), parts_of(target)
    check_out(Path(out), force=force)
    paths = InputPaths(
        quant=Path(quant),
        checkpoint=Path(checkpoint),
        target=find_target(parts),
        root=parts.root,
        allow_links=allow_links,
    )
    return emit_paths(
        paths,
        Path(out),
        profile=loaded,
        force=force,
        created=FIXED_DATE if created is None else created,
        report=lambda now: tell(now.step, now.done, now.total, ""),
    )
