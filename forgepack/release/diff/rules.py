"""Which rules of the verifier judge the place of a difference: what they would say if the right side stood there.

The tables are in diff_tables. Tests hold them against the verifier: every spoiled pair and every spoiled release must
be refused by a rule that its difference names.
"""

from __future__ import annotations

import re
from dataclasses import replace

from forgepack.release.diff.tables import (
    CHECKPOINT,
    CONFIG,
    NO_RULE,
    PACKAGE,
    QUANT,
    RELEASE,
    SIDECAR,
    TAP_RULES,
    TAPS,
    TARGET,
    Places,
    Rows,
)
from forgepack.release.diff.values import Difference
from forgepack.verify.rule import owner_of

# Single files and parts of a target: the table that judges them, and their name in it, or the folder they lie in.
_SINGLE = {
    "quant-report": (QUANT, "report.json"),
    "checkpoint-lock": (CHECKPOINT, "checkpoint.lock.json"),
    "tokenizer": (TARGET, "model/tokenizer.json"),
    "manifest": (TARGET, "coreai/manifest.json"),
    "source-record": (PACKAGE, "DFLASH2_SOURCE.json"),
    "build": (TARGET, "coreai/"),
    "export": (TARGET, "export/it/"),
    "model": (TARGET, "model/"),
}
_COREML = ("mlpackage", "mlmodelc", "mlmodel", "coreml-sidecar")


# What stands in place of a file -> the rule that tells it.
_KIND_RULES = {
    **dict.fromkeys(("mlpackage", "mlmodelc", "mlmodel", "coreml-sidecar"), ("PKG006",)),
    "lfs-pointer": ("FMT010",),
    **dict.fromkeys(("html", "xml", "zip", "npz", "pickle", "gguf", "gzip", "npy"), ("FMT011",)),
    "empty": ("FMT012", "FMT011"),
    **dict.fromkeys(("json", "damaged-json", "text"), ("FMT001",)),
}
# A part of a package or target that is of another kind, or is there beside what belongs: by its name.
EXTRA = (
    (r".*\.(mlpackage|mlmodelc|mlmodel)(/.*)?", ("PKG006",)),
    (r"[^/]*\.aimodel[cx](/.*)?", ("PKG003", "PKG010")),
    (r"[^/]*\.aimodel", ("PKG008", "PKG007")),
    (r"[^/]*\.aimodel/.*", ("PKG011",)),
    (r"(coreai|export)/.*basis.*", ("CTR025", "CTR024")),
    (r"(coreai|export)/.*", ("CTR024", "CTR005")),
    (r".*", ("PKG010",)),
)


def with_rules(difference: Difference, kind: str) -> Difference:
    """Return a difference with the rules that judge its place in a thing of a kind."""
    rules = rules_for(difference, kind)
    if difference.kind == "taps" and difference.detail in TAP_RULES:
        told = TAP_RULES[difference.detail]
        rules = (*told, *(rule for rule in rules if rule not in ("TAP001", *TAPS)))
    return replace(difference, rules=rules)


def rules_for(difference: Difference, kind: str) -> tuple[str, ...]:
    """Return the rules that judge the place of a difference; none where no rule looks."""
    file = difference.file
    if kind == "bundle":
        return _release_rules(difference)
    found = _by_place(kind, file, difference.place)
    if difference.kind == "kind":
        return (*_KIND_RULES.get(difference.right, ()), *found)
    if difference.kind == "unread":
        return (owner_of(difference.detail), *found) if difference.detail else found
    if difference.kind == "file":
        return _file_rules(difference, kind, file, found)
    if difference.kind == "tensor":
        return (*_tensor_rules(difference, file), *found)
    return found


def _by_place(kind: str, file: str, place: str) -> tuple[str, ...]:
    if kind in _COREML:
        return ("PKG006",)
    if kind in ("asset", "drafter-package"):
        return _package_rules(file, place)
    if kind == "checkpoint" and file == "config.json":
        return (*_first(CONFIG, place), "SRC005", "SRC006") if place else ("SRC005", "SRC006")
    tables = {"quant": QUANT, "checkpoint": CHECKPOINT, "target": TARGET}
    if kind in tables:
        return _match(tables[kind], file, place)
    if kind in _SINGLE:
        table, prefix = _SINGLE[kind]
        return _match(table, prefix + file if prefix.endswith("/") else prefix, place)
    return _first({"sidecar": SIDECAR, "drafter-config": CONFIG}.get(kind, ()), place)


def _package_rules(file: str, place: str) -> tuple[str, ...]:
    if file == "config.json":
        return (*_first(CONFIG, place), "SRC006", "SRC017", "PKG014") if place else ("SRC006", "SRC017", "PKG014")
    known = _match(PACKAGE, file, place)
    if known or place == NO_RULE:
        return known
    return _first(SIDECAR, place) if file.endswith(".json") and place else ("PKG014", "PKG022")


def _file_rules(difference: Difference, kind: str, file: str, found: tuple[str, ...]) -> tuple[str, ...]:
    """Return the rules for a file that one side lacks, or that is a file on one side and a folder on the other."""
    if difference.right == "nothing":
        licence = {"LICENSE": "LIC001", "NOTICE": "LIC002"}.get(file)
        moved = ("CTR005",) if file.startswith("export/") else ()
        return (licence or "PKG001", *found, *moved)
    if difference.left == "nothing":
        extra = ("SRC010",) if kind == "quant" else _first(EXTRA, file)
        return (*extra, *(rule for rule in found if rule not in extra)) if extra[:1] == ("CTR024",) else extra
    if difference.right.startswith("a link"):
        return ("PATH002",)
    return ("PKG002", *found) if difference.left == "a folder" else ("PATH003", *found)


def _tensor_rules(difference: Difference, file: str) -> tuple[str, ...]:
    head = ("HEAD001",) if "lm_head" in file else ()
    if difference.right == "nothing":
        return (*head, "WGT001")
    return (*head, "WGT002") if difference.left == "nothing" else (*head, "WGT003", "WGT004")


def _release_rules(difference: Difference) -> tuple[str, ...]:
    """Return the rules for a release's file: those of the inventory, then those of the part that it lies in."""
    file = difference.file
    listed = _match(RELEASE, file, difference.place)
    if difference.kind == "file":
        return ("CTR045", "CTR054", "CTR055", "CTR042", "CTR050", "CTR044", *_first(EXTRA, file))
    part, _, rest = file.partition("/")
    inner = ("drafter-package", rest) if part == "drafter" else ("target", file)
    if part not in ("drafter", "model", "coreai", "export"):
        return listed
    more = rules_for(replace(difference, file=inner[1]), inner[0])
    return (*listed, *(rule for rule in more if rule not in listed))


def _first(table: Places, place: str) -> tuple[str, ...]:
    return next((rules for pattern, rules in table if re.fullmatch(pattern, place)), ())


def _match(table: Rows, file: str, place: str) -> tuple[str, ...]:
    return next((rules for one, two, rules in table if re.fullmatch(one, file) and re.fullmatch(two, place)), ())
