"""Whether a package and a target belong together: a pair, a release, a published one, a second target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forgepack.calls.values import (
    DepthName,
    Listener,
    StrPath,
    TargetName,
    chosen,
    depth_of,
    effects_of,
    optional,
    parts_of,
    settings_of,
    teller,
)
from forgepack.profile import DEFAULT_PROFILE, load_profile

if TYPE_CHECKING:
    from forgepack.release.attest.make import AttestResult
    from forgepack.release.verification.run import Acceptance, Accepting
    from forgepack.verify.findings.report import Report
    from forgepack.verify.inputs.sources import Sources


def verify(
    drafter: StrPath,
    *,
    target: TargetName,
    quant: StrPath | None = None,
    checkpoint: StrPath | None = None,
    traces: StrPath | None = None,
    blocks: int | None = None,
    profile: str = DEFAULT_PROFILE,
    depth: DepthName = "lineage",
    strict: bool = False,
    accept: Acceptance | None = None,
    allow_links: bool = False,
    timeout: float = 600.0,
    progress: Listener | None = None,
) -> Report:
    """Verify that a drafter package and a target belong together, and return the report of every rule.

    ``depth`` is "header" (headers and small files), "hash" (all bytes), "lineage" (every constant decoded and equal
    to its source, which needs Core AI's package) or "run" (both entries on the CPU; ``traces`` are the sequences,
    ``blocks`` about how many blocks). With ``quant`` and ``checkpoint`` constants are compared with these as well.
    ``strict`` treats warnings as errors. ``timeout`` bounds each reading or run of an asset, in seconds.

    The report's ``verdict`` is "pass", "fail", "error" (the verification could not be finished), or "selection" where
    ``accept`` selects rules: unknown is never a pass. ``exit_code`` is the command's. The report lists the options
    that are not defaults. Nothing is written into what is read.

    A fault of the content is a finding, not an exception. Raises UsageError for a path that does not exist,
    MissingError for a folder that is not a target's release root, NothingToVerifyError for a folder without a
    package.

    >>> pair = {"quant": "quant", "checkpoint": "checkpoint", "profile": "mini"}
    >>> api.verify("drafter", target="mini/target", **pair).verdict
    'pass'
    >>> wrong = shutil.copytree("mini/target", "wrong")
    >>> shutil.copy("mini/stale/mini_step100/lm_head.safetensors", "wrong/export/mini_lut4/")
    'wrong/export/mini_lut4/lm_head.safetensors'
    >>> report = api.verify("drafter", target=wrong, **pair)
    >>> report.verdict, [check.id for check in report.failed("error") if check.cause is None]
    ('fail', ['HEAD003'])
    >>> report.failed("error")[0].findings[0].subject
    'head of the package'
    """
    from forgepack.verify.inputs.sources import find_sources

    parts = parts_of(target)
    sources = find_sources(
        Path(drafter),
        parts.root,
        model=parts.model,
        build=parts.build,
        export=parts.export,
        quant=optional(quant),
        checkpoint=optional(checkpoint),
        traces=optional(traces),
        allow_links=allow_links,
    )
    return _verified(sources, verify, locals())


def verify_bundle(
    bundle: StrPath,
    *,
    plain: bool = False,
    quant: StrPath | None = None,
    checkpoint: StrPath | None = None,
    traces: StrPath | None = None,
    blocks: int | None = None,
    profile: str = DEFAULT_PROFILE,
    depth: DepthName = "lineage",
    strict: bool = False,
    accept: Acceptance | None = None,
    allow_links: bool = False,
    timeout: float = 600.0,
    progress: Listener | None = None,
) -> Report:
    """Verify a whole release in one folder: its inventory, its checksums, and the pair that it holds.

    ``plain`` leaves the drafter out, as a diagnostic of the target alone. A partial download is understood: the
    export may be missing as a whole. All else is as in ``verify``.

    Raises UsageError for a path that is not a folder, NothingToVerifyError for a folder without release.json.

    >>> api.verify_bundle("release", depth="hash", profile="mini").verdict
    'pass'
    """
    from forgepack.verify.bundle import find_bundle

    sources = find_bundle(
        Path(bundle),
        quant=optional(quant),
        checkpoint=optional(checkpoint),
        traces=optional(traces),
        plain=plain,
        allow_links=allow_links,
    )
    return _verified(sources, verify_bundle, locals())


def _verified(sources: Sources, function: Any, given: dict[str, Any]) -> Report:
    """Verify what was located, by the keywords of the call."""
    from forgepack.release.verification.run import Judging, verify_sources

    how = Judging(
        profile=load_profile(given["profile"]),
        accepting=_read(given["accept"], of_pair=sources.bundle is None),
        depth=depth_of(given["depth"]),
        strict=given["strict"],
        seconds=given["timeout"],
        blocks=given["blocks"],
    )
    report = verify_sources(sources, how, progress=teller(given["progress"], "verify"))
    return replace(report, options=chosen(function, given))


def _read(accept: Acceptance | None, *, of_pair: bool) -> Accepting:
    from forgepack.release.verification.run import Acceptance, read_accepting

    return read_accepting(Acceptance() if accept is None else accept, of_pair=of_pair)


def verify_published(
    release: str,
    *,
    plain: bool = False,
    profile: str = DEFAULT_PROFILE,
    depth: DepthName = "hash",
    strict: bool = False,
    accept: Acceptance | None = None,
    endpoint: str | None = None,
    token: str | None = None,
    timeout: float = 30.0,
    progress: Listener | None = None,
) -> Report:
    """Verify a published release at its commit without downloading its weights.

    ``release`` is "owner/name@COMMIT" with a full commit. Headers and small files are read as they are, all digests
    are the hub's own, so ``depth`` is "header" or "hash". ``endpoint``, ``token`` and ``timeout`` are those of
    ``fetch``, all else is as in ``verify_bundle``.

    Raises UsageError for another form of ``release`` or a greater depth, HubError where hub or network fail,
    NothingToVerifyError for a commit without release.json.

    >>> report = api.verify_published(f"forgepack/mini@{COMMIT}", endpoint=HUB, profile="mini")
    >>> report.verdict, report.depth.label
    ('pass', 'hash')
    """
    from forgepack.release.published import verify as published

    given = locals()
    loaded, settings = load_profile(profile), settings_of(endpoint, token, timeout)
    accepting = _read(accept, of_pair=False)
    repo, commit = published.name_release(release, loaded, settings)
    wanted = published.PublishedRelease(
        repo=repo,
        commit=commit,
        plain=plain,
        depth=depth_of(depth),
        strict=strict,
        policy=accepting.policy,
        extra_files=accepting.extra_files,
        named=accepting.named,
    )
    report = published.verify_published(
        wanted, loaded, settings=settings, effects=effects_of(progress), progress=teller(progress, "verify")
    )
    return replace(report, options=chosen(verify_published, given))


def attest(
    drafter: StrPath,
    *,
    target: TargetName,
    evidence: StrPath,
    out: StrPath | None = None,
    profile: str = DEFAULT_PROFILE,
    depth: DepthName = "lineage",
    allow_links: bool = False,
    force: bool = False,
    progress: Listener | None = None,
) -> AttestResult:
    """Attest that a package was measured with another target than its own, if the verifier passes the pair with it.

    ``evidence`` is the report that ``replay`` wrote of this drafter with this target, with a workload. The
    attestation is written to ``out``, by default beside the package: DRAFTER.EXPORT.attestation.json. From then on
    ``verify`` passes the pair with ``accept=Acceptance(attestations=(...,))``. The package is not touched.

    A pair that is refused is not an exception: the result's ``attestation`` and ``path`` are None, nothing is
    written, and its ``report`` says why. Raises UsageError where the package was emitted for this very target, and
    for an existing ``out`` without ``force``.

    >>> sibling = Path(shutil.copytree("mini/target", "sibling"))
    >>> tune = (sibling / "export/mini_lut4").rename(sibling / "export/fine_tune")
    >>> manifest = sibling / "coreai/manifest.json"
    >>> size = manifest.write_text(manifest.read_text().replace("mini_lut4", "fine_tune"))
    >>> result = api.attest("drafter", target=sibling, evidence="replay.json", profile="mini")
    >>> result.attestation, result.path, result.report.verdict
    (None, None, 'fail')
    >>> [check.id for check in result.report.failed("error") if check.cause is None]
    ['CTR065']
    """
    from forgepack.disk.outputs import write_output
    from forgepack.release.attest import files as attest_files
    from forgepack.release.attest.make import attest as make
    from forgepack.verify.inputs.sources import find_sources

    loaded, parts = load_profile(profile), parts_of(target)
    sources = find_sources(
        Path(drafter),
        parts.root,
        model=parts.model,
        build=parts.build,
        export=parts.export,
        allow_links=allow_links,
    )
    place = attest_files.AttestationPlace(
        sources=sources, out=optional(out), inputs={"evidence": Path(evidence)}, force=force
    )
    place.check()
    inputs = attest_files.open_attest_inputs(sources, Path(evidence), loaded, depth_of(depth, least="hash"))
    result = make(inputs, progress=teller(progress, "attest"))
    if result.attestation is None:
        return result
    path = place.find(result)
    write_output(path, attest_files.attestation_bytes(result))
    return replace(result, path=path)
