"""From a package to a release: bundle, and build, which runs every step."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forgepack.calls.values import (
    DepthName,
    Listener,
    StrPath,
    TargetName,
    check_out,
    counter,
    depth_of,
    effects_of,
    optional,
    options_of,
    parts_of,
    settings_of,
)
from forgepack.profile import DEFAULT_PROFILE, load_profile

if TYPE_CHECKING:
    from forgepack.release.bundle.make import BundleResult
    from forgepack.release.recipe.build import BuildResult
    from forgepack.release.recipe.request import BuildRequest
    from forgepack.verify.findings.report import Chosen

# What of a request decides the outcome of its verification.
_JUDGING = ("attestations", "deny", "depth", "seconds", "strict", "waivers")


def bundle(
    drafter: StrPath,
    out: StrPath,
    *,
    target: TargetName,
    documents: StrPath | None = None,
    export: bool = True,
    upstream_id: str | None = None,
    upstream_revision: str | None = None,
    profile: str = DEFAULT_PROFILE,
    depth: DepthName = "hash",
    allow_links: bool = False,
    force: bool = False,
    progress: Listener | None = None,
) -> BundleResult:
    """Put a target and a drafter package into the release folder ``out``, with documents, inventory and checksums.

    Every file is hashed while it is copied, and the staged release must pass its own verification at ``depth``, which
    is "hash" or deeper, before it appears. ``documents`` is a folder whose README.md, LICENSE, NOTICE,
    MODIFICATIONS.md or QWEN_SOURCE.json replace the written ones; ``export`` says whether the quantized export goes
    along. The upstream of the target is the profile's, unless ``upstream_id`` and ``upstream_revision`` name it.

    The result names what was left behind, and holds the report: its warnings do not refuse. Raises IdentityError for
    parts that do not make a release, UsageError for an existing ``out`` without ``force`` and for an upstream that
    nothing names, OutputError where writing fails.

    >>> result = api.bundle("drafter", "release", target="mini/target", profile="mini")
    >>> len(result.files), result.report.verdict
    (56, 'pass')
    """
    from forgepack.release.bundle.inputs import open_bundle_inputs
    from forgepack.release.bundle.make import Progress, make_bundle

    loaded, tell = load_profile(profile), counter(progress)
    inputs = open_bundle_inputs(
        Path(drafter),
        parts_of(target),
        loaded,
        documents=optional(documents),
        export=export,
        upstream_id=upstream_id,
        upstream_revision=upstream_revision,
        allow_links=allow_links,
    )
    check_out(Path(out), force=force, inputs=inputs.places())

    def listen(now: Progress) -> None:
        tell(now.step, now.done, now.total, now.path)

    return make_bundle(
        inputs, Path(out), profile=loaded, force=force, depth=depth_of(depth, least="hash"), listener=listen
    )


def build(
    request: BuildRequest,
    *,
    lock: StrPath = "forgepack.lock",
    locked: bool = False,
    force: bool = False,
    profile: str = DEFAULT_PROFILE,
    endpoint: str | None = None,
    token: str | None = None,
    timeout: float = 30.0,
    progress: Listener | None = None,
) -> BuildResult:
    """Make a release from one request: fetch, quantize, emit, verify, bundle.

    A step whose inputs and results have the digests of the last build is skipped. ``lock`` is the file that keeps
    every input's digest; with ``locked`` any drift from it is refused, and it is not written. The folders of the
    steps are kept in ``request.work``. ``endpoint``, ``token`` and ``timeout`` are those of ``fetch``.

    A pair that the verification refuses is not an exception: the result's ``refused`` is true, nothing is bundled,
    and its ``report`` says why. ``outcomes`` says for each step "made", "up to date" or "refused". Raises the errors
    of the steps, and IdentityError for drift.

    >>> request = api.BuildRequest(
    ...     checkpoint=Path("checkpoint"),
    ...     traces=Path("mini/traces/calib.npz"),
    ...     held_out=Path("mini/traces/heldout.npz"),
    ...     target=api.TargetParts(root=Path("mini/target")),
    ...     output=Path("built"),
    ...     work=Path("work"),
    ...     offline=True,
    ... )
    >>> result = api.build(request, profile="mini")
    >>> result.outcomes
    {'fetch': 'up to date', 'quantize': 'made', 'emit': 'made', 'verify': 'made', 'bundle': 'made'}
    >>> api.diff("release", "built").differences
    ()
    """
    from forgepack.release.recipe.build import World, build_release
    from forgepack.release.recipe.request import make_recipe
    from forgepack.render import render_report

    tell = counter(progress)
    recipe = make_recipe(replace(request, options=chosen_of(request, profile)), load_profile(profile))
    world = World(
        settings=settings_of(endpoint, token, timeout),
        effects=effects_of(progress),
        say=lambda step, text: tell(step, 0, 0, text),
        advance=tell,
        render=lambda report: render_report(report, "json"),
    )
    return build_release(recipe, Path(lock), world=world, locked=locked, force=force)


def chosen_of(request: BuildRequest, profile: str) -> tuple[Chosen, ...]:
    """Return what of a request decides the verification and has not its default; a file by its name alone.

    The report of a build lists it, and must not depend on the machine's folders.
    """
    told: list[tuple[str, Any]] = [] if profile == DEFAULT_PROFILE else [("profile", profile)]
    for one in fields(request):
        value = getattr(request, one.name)
        if one.name in _JUDGING and value != one.default:
            told.append((one.name, _short(value)))
    return options_of(told)


def _short(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_short, value))
    if isinstance(value, Path):
        return value.name
    return getattr(value, "label", value)  # a depth by its name
