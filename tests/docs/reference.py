"""Reference pages, and generated parts of other pages, made from the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from forgepack.cli.main import COMMANDS, EXIT_CODES
from forgepack.limits import BOUNDS
from forgepack.verify.findings.report import FIRST_RULE_SET, RULE_SET
from forgepack.verify.policy.rule import AREAS, Rule, all_rules
from tests.docs.pages import ROOT
from tests.docs.reference_api import api_page
from tests.docs.reference_commands import commands_page
from tests.docs.reference_formats import formats_page
from tests.docs.reference_settings import configuration_page

_NOTICE = "<!-- Made from the code by: make check-readme ARGS=--update -->\n\n"
_PART = re.compile(r"(<!-- made: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_DEPTHS = {
    "header": "headers and small files; no file over 1 MB is read whole",
    "hash": "all bytes, against sidecar and lock",
    "lineage": "every constant decoded and proven equal to its source; the default",
    "run": "both entry points on the CPU, against the float32 reference",
}
_EXAMPLES = {
    0: "`diff`: they are equal",
    1: "`verify`: any fault of content, corrupt and truncated files included; `gate`: not met; `diff`: they differ; "
    "`inspect`: something is wrong with what is there",
    2: "a path that does not exist, an unknown option, rule, profile or schema, a revision that is not a full "
    "commit; a variable of the hub's client that can't be used; a current folder that no longer exists",
    3: "`verify` on a folder without a package, `verify --bundle` on one without release.json",
    4: "no permission; a donor's checkpoint; a lock that does not fit; a file over a [limit](limits.md). `verify` "
    "answers faults of content with 1. Also: more memory, nesting or open files than the machine grants; a name that "
    "is not UTF-8 where a document must hold it",
    5: "an output exists on a read-only or full disk; the reader of a pipe has gone, stdout "
    "is closed; no folder for temporary files can be written (TMPDIR)",
    6: "`fetch`, `verify --hub`",
    7: "`emit`; `verify` at depth lineage or run",
    70: "a fault of this tool: report it",
    130: "SIGINT",
}


def generated_files() -> dict[Path, str]:
    """Return each file that is made, or holds made parts, and its text as the code gives it."""
    pages = {
        "commands.md": commands_page,
        "exit-codes.md": exit_codes_page,
        "configuration.md": configuration_page,
        "formats.md": formats_page,
        "rules.md": rules_page,
        "limits.md": limits_page,
        "api.md": api_page,
    }
    files = {ROOT / "docs/reference" / name: _NOTICE + make() for name, make in pages.items()}
    readme = ROOT / "README.md"
    return {**files, readme: with_parts(readme.read_text("utf-8"))}


def with_parts(text: str) -> str:
    """Return a page's text with its made parts as the code gives them."""
    parts: dict[str, Callable[[], str]] = {
        "commands": commands_table,
        "exit-codes": exit_codes_table,
        "areas": areas_table,
    }
    return _PART.sub(lambda m: f"{m[1]}{parts[m['name']]()}{m[3]}", text)


def commands_table() -> str:
    """Return the commands as a table, each with a link to its reference."""
    rows = [f"| [`{name}`](docs/reference/commands.md#{name}) | {text} |" for name, (_, text) in COMMANDS.items()]
    return "\n".join(["| command | does |", "|---|---|", *rows]) + "\n"


def exit_codes_table() -> str:
    """Return the exit codes as a table."""
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| {c} | {t} |" for c, t in EXIT_CODES.items())]) + "\n"


def areas_table() -> str:
    """Return the areas of rules as a table."""
    rows = [f"| [{area}](docs/reference/rules.md#{area.lower()}) | {text} |" for area, text in AREAS.items()]
    return "\n".join(["| area | about |", "|---|---|", *rows]) + "\n"


def limits_page() -> str:
    """Return the page of bounds, made from the table that the readers take them from."""
    rows = [f"| {bound.of} | {bound.what} | {f'{bound.value:,} {bound.unit}'.strip()} |" for bound in BOUNDS]
    return (
        "# Limits\n\n"
        "What a reader takes at most. A file over a limit ends in exit 4 (in settings that you name, in 2; in the\n"
        "hub's answers, in 6), before it is parsed where its cost would grow with it.\n\n"
        "Beside the interpreter and the tensors' own data, every reader stays below 256 MiB at its limits.\n"
        "Exceptions: a tokenizer (640 MiB at four million brackets, commas and colons; one made of 250,000 tokens\n"
        "and as many merges took 168 MiB, the interpreter included), a model.mlmodel of Core ML (its messages take\n"
        "many times the size of the file), and the child that loads programs, with a bound of its own on memory.\n\n"
        + "\n".join(["| of | what | at most |", "|---|---|---|", *rows])
        + "\n"
    )


def exit_codes_page() -> str:
    """Return the page of exit codes."""
    rows = [f"| {code} | {text} | {_EXAMPLES[code]} |" for code, text in EXIT_CODES.items()]
    return (
        "# Exit codes\n\n"
        "Every command ends with one of these; they are stable. The form of the output never changes the code.\n\n"
        + "\n".join(["| code | meaning | for instance |", "|---|---|---|", *rows])
        + "\n\nWhen several apply, the first of these is returned: 130, 70, 5, 7, 6, 4, 3, 1.\n\n"
        "Unknown is not pass: a required check that could not be evaluated fails (1).\n"
    )


def _weight(one: Rule) -> str:
    words = [one.severity, one.depth.label]
    if one.since > FIRST_RULE_SET:
        words.append(f"since rule set {one.since}")
    if one.waivable != (one.severity != "error"):
        words.append("may be waived" if one.waivable else "never waived")
    return ", ".join(words)


def rules_page() -> str:
    """Return the page of rules: by area, each with what it demands, why, and the remedy."""
    lines = [
        "# Rules",
        "",
        "Ids are stable for ever. `forgepack explain RULE` prints the same. A check is required when its severity is",
        "error and its depth at most the chosen one; a required check that could not be evaluated fails the verdict.",
        "Findings of warnings and notes, and of the errors that say so, may be",
        "[waived](../how-to/waive-and-attest.md#waive-a-finding).",
        "",
        f"This is rule set {RULE_SET}; every report names the set that made it (`rule_set` in JSON, `ruleSet` of",
        "the tool in SARIF, the last lines of `verify -v`). A rule that is new in a release is a warning or a note",
        "there, so that it breaks no gate that passed before, and becomes an error in the next; a rule that closes a",
        "wrong pair that passed is an error at once, and says which. Both are in the rules' own data (`since`,",
        "`closes`), below and in `forgepack explain RULE --json`.",
        "",
        "| depth | reads |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in _DEPTHS.items()),
    ]
    for area, text in AREAS.items():
        lines += ["", f"## {area}", "", f"{text[0].upper()}{text[1:]}."]
        for one in all_rules():
            if one.area == area:
                demand = " ".join(one.demand.split())
                lines += ["", f"**{one.id}** ({_weight(one)}): {one.title}.", f"{demand}"]
                lines += [f"*Why:* {one.why}. *Next:* {one.remedy}."]
                lines += [f"*Closes:* {one.closes}."] if one.closes else []
    return "\n".join(line.replace("<", "&lt;") for line in lines) + "\n"
