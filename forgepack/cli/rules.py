"""``forgepack rules``: the list of the verifier's rules."""

from __future__ import annotations

import click

from forgepack.cli.common import echo_json
from forgepack.render.rules import rule_json, rules_table
from forgepack.verify.rule import all_rules


@click.command()
@click.option("--format", "format_name", type=click.Choice(["text", "json", "markdown"]), default="text")
def rules(*, format_name: str) -> None:
    """List the verifier's rules."""
    if format_name == "json":
        echo_json([rule_json(one) for one in all_rules()])
    elif format_name == "markdown":
        click.echo(rules_table(), nl=False)
    else:
        for one in all_rules():
            click.echo(f"{one.id:<8} {one.severity:<8} {one.depth.label:<8} {one.title}")
