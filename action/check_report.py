"""Whether the reports in a folder are those of the run that ended with a code; prints the verdict that they tell.

``check_report.py FOLDER CODE`` exits with 0 when both reports are whole, agree with each other and with the code, and
name the inputs that the action was given; with 1, and the reason on stderr, when not. It needs no forgepack.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

_ROLES = ("drafter", "target", "bundle", "quant", "checkpoint")
# The file of each part whose digest the report states, as far as one file says which part it is.
_STATED = {"drafter": ("config.json", "config_sha256"), "bundle": ("release.json", "release_sha256")}


def main() -> int:
    """Judge the reports and return the exit code."""
    folder, code = Path(sys.argv[1]), int(sys.argv[2])
    try:
        report = json.loads((folder / "report.json").read_bytes())
        run = json.loads((folder / "report.sarif").read_bytes())["runs"][0]
        fault = fault_of(report, run, code)
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as err:
        fault = f"a report can't be read: {type(err).__name__}"
    if fault is not None:
        sys.stderr.write(f"forgepack: the report is not of this run: {fault}\n")
        return 1
    sys.stdout.write(report["verdict"])
    return 0


def fault_of(report: Any, run: Any, code: int) -> str | None:
    """Return what does not fit; None when all does."""
    if report["verdict"] == "selection":
        return "it is of selected rules alone, which is no pass"
    if report["tool"] != "forgepack" or report["verdict"] not in ("pass", "fail", "error"):
        return "it is no report of forgepack"
    if report["exit_code"] != code or (report["verdict"] == "pass") != (code == 0):
        return "it states another outcome than the exit code"
    if run["tool"]["driver"]["name"] != "forgepack" or run["properties"]["verdict"] != report["verdict"]:
        return "the SARIF report states another outcome"
    for role in _ROLES:
        given = os.environ.get(f"INPUT_{role.upper()}", "")
        told = report["inputs"].get(role)
        if given and (told is None or told["path"] != Path(given).as_posix()):
            return f"it is about another {role}"
        if given and role in _STATED and not _same_file(Path(given), told["digests"], *_STATED[role]):
            return f"the {role} has changed"
    return None


def _same_file(root: Path, digests: dict[str, str], name: str, key: str) -> bool:
    """Whether the report states the digest that the file has; true where neither is there."""
    path = root / name
    there = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    return digests.get(key) == there


if __name__ == "__main__":
    sys.exit(main())
