"""``forgepack build``: a release from one recipe."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forgepack.cli.common import console_of, echo_json, force_option, json_option, profile_option, target_options
from forgepack.cli.config import CONFIG_FILE
from forgepack.cli.origins import chosen_options
from forgepack.cli.resources import target_parts
from forgepack.cli.step_progress import StepProgress
from forgepack.cli.variables import source_date
from forgepack.cli.verify_policy import today
from forgepack.errors import UsageError
from forgepack.escaping import escape
from forgepack.profile import Profile, load_profile
from forgepack.verify.findings.report import Depth

if TYPE_CHECKING:
    from forgepack.hub import Effects, HubSettings
    from forgepack.hub import Progress as HubProgress
    from forgepack.quantize.recipe import Options
    from forgepack.release.recipe.build import BuildResult
    from forgepack.release.recipe.inputs import BuildRecipe

_PATH = click.Path(path_type=Path)
_NEEDED = ("checkpoint", "traces", "output")
_OWN = ("checkpoint", "commit", "traces", "held_out", "output", "work", "waivers")
_OF_BUNDLE = ("documents", "export", "upstream_id", "upstream_revision")


EPILOG = """\b
A recipe:
  profile = "qwen3.8-27b-dflash2"
  checkpoint = "checkpoint"
  traces = "traces.npz"
  target = "target"
  output = "release"
  [verify]
  depth = "lineage"
"""


@click.command("build", epilog=EPILOG)
@click.option("--checkpoint", type=_PATH, metavar="DIR", help="Where the checkpoint is, or is to be fetched to.")
@click.option("--commit", metavar="COMMIT", help="Full commit of the checkpoint: must be the one the profile pins.")
@click.option("--traces", type=_PATH, metavar="FILE", help="Recorded sequences that calibrate.")
@click.option("--held-out", type=_PATH, metavar="FILE", help="Held-out sequences, for evaluation only.")
@click.option("--target", type=_PATH, metavar="DIR", help="The target's release root.")
@target_options
@click.option("--output", type=_PATH, metavar="DIR", help="Release folder to be written.")
@click.option(
    "--work",
    type=_PATH,
    default="work",
    show_default=True,
    metavar="DIR",
    help="Where the steps keep what they made.",
)
@click.option("--waivers", type=_PATH, metavar="FILE", help="Accepted findings, with an expiry date.")
@click.option(
    "--attestation",
    type=_PATH,
    multiple=True,
    metavar="FILE",
    help="Attestation of the drafter for another target.",
)
@click.option("--locked", is_flag=True, help="Refuse whatever is not as forgepack.lock records it; for CI.")
@profile_option
@force_option()
@json_option
@click.pass_context
def build(
    ctx: click.Context, /, *, as_json: bool, profile_name: str, locked: bool, force: bool, **options: Any
) -> int:
    """Make a release: fetch -> quantize -> emit -> verify -> bundle.

    The recipe is forgepack.toml (or [tool.forgepack] of pyproject.toml): these options as keys, without dashes, and
    a table for a step's own options.

    A step whose inputs and results have the digests of the last build is skipped. forgepack.lock, beside the recipe,
    keeps the digest of every input; --locked refuses any drift from it, in the inputs and in what is made.

    Waivers and attestations that a recipe names are inputs like all others: by digest in the lock, and in the report.
    """
    console, profile = console_of(ctx), load_profile(profile_name)
    config: Path | None = ctx.meta.get("forgepack.config")
    recipe = _read_recipe(ctx, profile, options, config)
    from forgepack.release.recipe.build import World, build_release
    from forgepack.release.recipe.lock import LOCK_FILE
    from forgepack.render import render_report

    lock = (config.parent if config is not None else Path()) / LOCK_FILE
    with StepProgress(console) as progress:
        world = World(
            settings=_settings(_step(ctx, "fetch", "--out", str(recipe.checkpoint)).params),
            effects=_effects(progress),
            say=progress.say,
            advance=progress.advance,
            render=lambda report: render_report(report, "json"),
        )
        result = build_release(recipe, lock, world=world, locked=locked, force=force)
    if as_json:
        echo_json(result_json(result, recipe))
    elif not result.refused:
        click.echo("\n".join(result_lines(result, recipe)))
    if result.refused and result.report is not None:
        sys.stdout.flush()
        console.say(render_report(result.report, "text").decode())
        return result.report.exit_code
    return 0


def _read_recipe(ctx: click.Context, profile: Profile, options: dict[str, Any], config: Path | None) -> BuildRecipe:
    from forgepack.coreai_backend.asset_writer import FIXED_DATE
    from forgepack.release.recipe.request import BuildRequest, make_recipe

    _check_needed(options, config)
    work, output = options["work"], options["output"]
    judging = _step(ctx, "verify", str(work))
    verify, fetch = judging.params, _step(ctx, "fetch", "--out", str(options["checkpoint"])).params
    bundle = _step(ctx, "bundle", str(work), "--out", str(output)).params
    own = chosen_options(ctx, folders=False)
    own += tuple(one for one in chosen_options(judging, folders=False) if one.name != "profile")
    request = BuildRequest(
        target=target_parts(options),
        quantize=_quantize_options(ctx, options),
        depth=Depth[verify["depth"].upper()],
        strict=verify["strict"],
        seconds=verify["timeout"],
        created=source_date(FIXED_DATE),
        offline=fetch["offline"],
        attestations=options["attestation"],
        deny=verify["deny"],
        today=today(),
        options=tuple(sorted(own, key=lambda one: one.name)),
        **{name: options[name] for name in _OWN},
        **{name: bundle[name] for name in _OF_BUNDLE},
    )
    return make_recipe(request, profile)


def _quantize_options(ctx: click.Context, options: dict[str, Any]) -> Options:
    from forgepack.quantize.recipe import Options

    words = (str(options["checkpoint"]), "--traces", "-", "--out", str(options["work"]))
    quantize = _step(ctx, "quantize", *words).params
    return Options(
        method=quantize["method"],
        mask_scale=quantize["mask_scale"],
        deployed_mask_scale=quantize["deploy_mask_scale"],
        threads=quantize["threads"],
    )


def _check_needed(options: dict[str, Any], config: Path | None) -> None:
    """Raise UsageError that names the first key without which nothing can be built."""
    missing = [name for name in _NEEDED if options[name] is None]
    missing += ["target"] if options["target"] is None and options["target_model"] is None else []
    if missing:
        where = str(config) if config is not None else f"no {CONFIG_FILE} in this folder"
        hint = f'add {missing[0]} = "..." to {CONFIG_FILE}, or give --{missing[0]}'
        raise UsageError("the recipe is not complete", where=where, expected=", ".join(missing), hint=hint)


def _step(ctx: click.Context, name: str, *args: str) -> click.Context:
    """Return a step's context, with its options as its own command would have them but for the recipe's profile."""
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, name)
    assert command is not None
    with command.make_context(name, ["--profile", ctx.params["profile_name"], *args], parent=root) as step:
        return step


def _settings(fetch: dict[str, Any]) -> HubSettings:
    from forgepack.hub import HubSettings

    return HubSettings(endpoint=os.environ.get("HF_ENDPOINT") or None, timeout=fetch["timeout"])


def _effects(progress: StepProgress) -> Effects:
    """Return a fetch's effects, shown as a step among others: two live displays can't be drawn at once."""
    from forgepack.hub import Effects

    def report(now: HubProgress) -> None:
        if now.phase == "retry":
            progress.say("fetch", f"{now.path or 'the hub'}: {now.note}")
        else:
            progress.advance("fetch", now.done, now.total, now.path)

    return Effects(sleep=time.sleep, clock=time.monotonic, report=report)


def result_json(result: BuildResult, recipe: BuildRecipe) -> dict[str, Any]:
    """Return the result as JSON values."""
    bundle = result.lock.steps.get("bundle")
    release = None if bundle is None else bundle.files["release.json"]["sha256"]
    return {
        "schema": "forgepack.build-report/1",
        "out": str(recipe.output),
        "steps": dict(result.outcomes),
        "verdict": None if result.report is None else result.report.verdict,
        "release_sha256": release,
    }


def result_lines(result: BuildResult, recipe: BuildRecipe) -> list[str]:
    """Return the result as text: a line a step, then the release."""
    lines = [f"{name:<9} {outcome}" for name, outcome in result.outcomes.items()]
    release = result.lock.steps["bundle"].files["release.json"]["sha256"]
    return [*lines, f"{escape(str(recipe.output))}: release.json sha256 {release}"]
