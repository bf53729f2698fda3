"""``forgepack explain``: what a rule demands, why a fault is silent, how to mend it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from forgepack.cli.common import echo_json, json_option, offer
from forgepack.cli.rules import rule_names, rules_of
from forgepack.errors import UsageError
from forgepack.render.rules import rule_json
from forgepack.verify.policy.rule import AREAS, Rule, all_rules


@click.command()
@click.argument("rule", required=False, metavar="[RULE|AREA]", shell_complete=offer(rule_names))
@click.option("--all", "everything", is_flag=True, help="Explain every rule.")
@json_option
def explain(*, rule: str | None, everything: bool, as_json: bool) -> None:
    """Explain RULE, for instance HEAD003: what it demands, why it matters, how to mend a fault.

    An AREA, for instance HEAD, stands for all of its rules.
    """
    if (rule is None) != everything:
        raise UsageError("name one rule, or --all", hint="list the rules with forgepack rules")
    rules = all_rules() if rule is None else rules_of(rule)
    if as_json:
        single = rule is not None and rule.upper() not in AREAS
        echo_json(rule_json(rules[0]) if single else [rule_json(one) for one in rules])
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
    if one.closes:
        yield f"  closes:   {one.closes}"
    yield f"  why:      {one.why}"
    yield f"  next:     {one.remedy}"
