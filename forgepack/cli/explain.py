"""``forgepack explain``: what a rule demands, why a fault is silent, how to mend it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from forgepack.cli.common import echo_json, json_option
from forgepack.errors import UsageError
from forgepack.render.rules import rule_json
from forgepack.verify.rule import AREAS, Rule, all_rules, find_rule


@click.command()
@click.argument("rule", required=False)
@click.option("--all", "everything", is_flag=True, help="Explain every rule.")
@json_option
def explain(*, rule: str | None, everything: bool, as_json: bool) -> None:
    """Explain RULE, for instance HEAD001: what it demands, why it matters, how to mend a fault."""
    if (rule is None) != everything:
        raise UsageError("name one rule, or --all", hint="list the rules with forgepack rules")
    rules = all_rules() if rule is None else (find_rule(rule),)
    if as_json:
        echo_json([rule_json(one) for one in rules] if everything else rule_json(rules[0]))
    else:
        click.echo("\n\n".join("\n".join(_lines(one)) for one in rules))


def _lines(one: Rule) -> Iterator[str]:
    yield f"{one.id}  {one.title}"
    yield f"  area:     {one.area}, {AREAS[one.area]}"
    yield f"  severity: {one.severity}, from depth {one.depth.label} on"
    yield f"  demands:  {' '.join(one.demand.split())}"
    if one.needs:
        yield f"  reads:    {', '.join(one.needs)}"
    yield f"  waivers:  {'may be waived' if one.waivable else 'never waived, ignored or known'}"
    yield f"  why:      {one.why}"
    yield f"  next:     {one.remedy}"
