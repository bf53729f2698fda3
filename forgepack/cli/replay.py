"""``forgepack replay``: acceptance of drafters on recorded sequences, and how often their drafts agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forgepack import __version__
from forgepack.cli.common import Talk, echo_json, json_option, profile_option, talk_of, target_options
from forgepack.cli.resources import require_file, threads_option
from forgepack.escaping import escape
from forgepack.profile import Profile, load_profile

if TYPE_CHECKING:
    from forgepack.artifacts.target import Target
    from forgepack.artifacts.traces import TraceSet
    from forgepack.drafter.comparison import Comparison
    from forgepack.drafter.open import OpenedDrafter

_FOLDER = click.Path(path_type=Path)


@click.command("replay")
@click.argument("pairs", type=_FOLDER, nargs=-1, required=True, metavar="PAIR...")
@click.option("--traces", type=_FOLDER, required=True, metavar="FILE", help="Recorded sequences to walk.")
@click.option("--target", type=_FOLDER, metavar="DIR", help="The target's release root.")
@target_options
@click.option("--checkpoint", type=_FOLDER, metavar="DIR", help="The checkpoint that a QUANT was made of.")
@click.option("--mask-scale", type=click.FloatRange(0, 1, min_open=True), metavar="S", help="For every PAIR.")
@threads_option
@profile_option
@json_option
@click.pass_context
def replay(ctx: click.Context, /, *, as_json: bool, profile_name: str, **options: Any) -> None:
    """Replay greedy speculative decoding on recorded sequences with each PAIR.

    A PAIR is an unquantized checkpoint, a QUANT folder or a drafter package. The target's recorded tokens take the
    target's place, so acceptance is exact. Agreement is the share of blocks, on the first PAIR's schedule, whose
    drafts all equal the first PAIR's: it sees small changes that acceptance can't.
    """
    from forgepack.artifacts.target import locate_target, read_target
    from forgepack.artifacts.traces import read_traces
    from forgepack.drafter.open import open_drafters

    talk, profile = talk_of(ctx), load_profile(profile_name)
    require_file(options["traces"])
    parts = {part: options[f"target_{part}"] for part in ("model", "build", "export")}
    target = read_target(locate_target(options["target"], **parts))
    traces = read_traces(options["traces"], profile.geometry)
    drafters = open_drafters(options["pairs"], profile, checkpoint=options["checkpoint"])
    if options["mask_scale"] is not None:
        drafters = [replace(d, mask_scale=options["mask_scale"]) for d in drafters]
    identity = _target_json(target, traces, talk)
    results = _compare(drafters, target, traces, threads=options["threads"], talk=talk)
    if as_json:
        echo_json(replay_json(drafters, results, traces, profile=profile, target=identity))
    else:
        click.echo("\n".join(replay_lines(results)))


def _target_json(target: Target, traces: TraceSet, talk: Talk) -> dict[str, Any]:
    """Identify the head that is used; say when the traces were recorded with another one, which is measured too."""
    from forgepack.artifacts.files import hash_file
    from forgepack.errors import MissingError

    if target.head is None:
        where = str(target.paths.build)
        raise MissingError("the target's export is missing", where=where, hint="name it with --target-export")
    _, digest = hash_file(target.head.path)
    if traces.identity is not None and traces.identity.head_sha256 != digest:
        talk.say(f"note: {traces.path} was recorded with another head than {target.head.path}")
    return {"export": target.manifest.export, "head_sha256": digest}


def _compare(
    drafters: list[OpenedDrafter], target: Target, traces: TraceSet, *, threads: int, talk: Talk
) -> list[Comparison]:
    from forgepack.drafter.comparison import Variant, compare
    from forgepack.drafter.head import open_head
    from forgepack.parallel import open_pool

    assert target.head is not None
    head = open_head(target.head, traces.geometry)
    variants = [Variant(name=str(d.path), weights=d.weights, head=head, mask_scale=d.mask_scale) for d in drafters]

    def note(name: str) -> None:
        talk.say(f"replay: {name}")

    with open_pool(threads) as pool:
        return compare(variants, traces, target.embedding, pool=pool, note=note)


def replay_json(
    drafters: list[OpenedDrafter],
    results: list[Comparison],
    traces: TraceSet,
    *,
    profile: Profile,
    target: dict[str, Any],
) -> dict[str, Any]:
    """Return the result as the JSON object that schemas/replay.schema.json describes."""
    from forgepack.drafter.comparison import comparison_json

    return {
        "schema": "forgepack.replay/1",
        "tool": {"name": "forgepack", "version": __version__},
        "profile": {"name": profile.name, "sha256": profile.digest},
        "target": target,
        "traces": {
            "sha256": traces.digest,
            "bound": traces.identity is not None,
            "sequences": len(traces.sequences),
            "blocks": traces.blocks,
        },
        "drafters": [
            {"path": d.path.as_posix(), "kind": d.kind, "sha256": d.sha256, "mask_scale": d.mask_scale}
            | comparison_json(r)
            for d, r in zip(drafters, results, strict=True)
        ],
    }


def replay_lines(results: list[Comparison]) -> list[str]:
    """Return the result as a table: accepted drafts a block with standard error, blocks, agreement."""
    wide = max(len(escape(r.name)) for r in results)
    lines = [f"{'':<{wide}}  accepted/block        blocks  agreement"]
    for r in results:
        a = r.acceptance
        lines.append(
            f"{escape(r.name):<{wide}}  {a.mean:5.3f} of {len(a.at_least)} +- {a.standard_error:5.3f}  "
            f"{a.blocks:>6}  {r.agreement:9.3f}"
        )
    return lines
