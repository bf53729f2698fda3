"""``forgepack rules``: the list of the verifier's rules."""

from __future__ import annotations

import click

from forgepack.cli.common import echo_json, offer
from forgepack.render.rules import rule_json, rules_table
from forgepack.verify.policy.rule import AREAS, Rule, all_rules, find_rule


def rule_names() -> list[str]:
    """Return what stands for rules on the command line: areas, then ids."""
    return [*AREAS, *(one.id for one in all_rules())]


def rules_of(name: str) -> tuple[Rule, ...]:
    """Return the rules of an area, or the one of that id; UsageError names the closest one."""
    of_area = tuple(one for one in all_rules() if one.area == name.upper())
    return of_area or (find_rule(name),)


@click.command()
@click.argument("names", nargs=-1, metavar="[RULE|AREA]...", shell_complete=offer(rule_names))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print them; markdown is the table of all.",
)
def rules(*, names: tuple[str, ...], format_name: str) -> None:
    """List the verifier's rules, all of them or those of an area: TAP, HEAD, VOC, TOK, WGT, NUM, FMT, PKG, ..."""
    chosen = [one for name in names for one in rules_of(name)] if names else list(all_rules())
    if format_name == "json":
        echo_json([rule_json(one) for one in chosen])
    elif format_name == "markdown":
        click.echo(rules_table(), nl=False)
    else:
        for one in chosen:
            click.echo(f"{one.id:<8} {one.severity:<8} {one.depth.label:<8} {one.title}")
