"""Reports made by hand, with hostile text wherever text of a file can end up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from forgepack.verify.findings.report import (
    Accepted,
    BaselineResult,
    Check,
    Chosen,
    Depth,
    Failure,
    Finding,
    Gone,
    Identity,
    Narrowed,
    Report,
)

# Every character that a file name, JSON string or tensor name can smuggle in, half surrogates included.
HOSTILE = st.one_of(
    st.text(st.characters(), max_size=40),
    st.sampled_from(
        [
            "\x1b[2J\x1b]0;owned\x07",
            "a\n::error file=x::owned",
            "\r\n##[error]owned",
            "##vso[task.complete result=Succeeded]",
            "]]></failure><failure/>",
            '"},{"ruleId":"X"',
            "\u202egnp.exe",
            "\ud800",
            "\ufffe\uffff",
            "100%0A::warning::x",
            "-1: --help",
        ]
    ),
)


def make_report(text: str, *, strict: bool = False, failures: bool = True) -> Report:
    """Return a report with a check of each outcome, accepted or not, every free text of which is ``text``."""
    finding = Finding(subject=text, expected=text, found=text, where=f"drafter/{text}: {text}", message=text)
    common: Any = {"why": "it matters", "remedy": "mend it", "depth": Depth.HEADER}
    checks = (
        Check(
            id="TAP001",
            title="taps",
            severity="error",
            status="fail",
            required=True,
            count=30,
            findings=(finding,) * 20,
            **common,
        ),
        Check(
            id="TAP012",
            title="note",
            severity="note",
            status="fail",
            required=False,
            count=1,
            findings=(finding,),
            **common,
        ),
        Check(
            id="HEAD001",
            title="head",
            severity="error",
            status="not-evaluated",
            required=True,
            reason=text,
            cause="TAP001",
            **common,
        ),
        Check(
            id="PATH006",
            title="tokens",
            severity="warning",
            status="fail",
            required=False,
            count=1,
            findings=(finding,),
            cause="TAP001",
            **common,
        ),
        Check(
            id="LIC004",
            title="texts",
            severity="error",
            status="not-evaluated",
            required=False,
            reason=text,
            **common,
        ),
        Check(id="VOC001", title="rows", severity="error", status="pass", required=True, **common),
        *_accepted_checks(text, finding, common),
    )
    failure = Failure(what=text, where=text, expected=text, found=text, hint=text, code="unreadable", exit_code=4)
    return Report(
        version="0",
        profile=text,
        profile_digest="0" * 64,
        depth=Depth.HEADER,
        strict=strict,
        inputs=(Identity(role="drafter", path=text, digests={"a": "b"}),),
        checks=checks,
        failures=(failure,) if failures else (),
        narrowed=Narrowed(select=(), ignore=("LIC",), kept=("TAP001",)),
        baseline=BaselineResult(
            path=text, sha256="0" * 64, gone=(Gone(rule="LIC001", where=text),), other_inputs=("drafter",)
        ),
        options=(
            Chosen(name="deny", value=text, source="file", place=f"{text}: verify.deny"),
            Chosen(name="profile", value=text, source="variable", place="FORGEPACK_PROFILE"),
            Chosen(name="timeout", value=text, source="command line"),
        ),
    )


def _accepted_checks(text: str, finding: Finding, common: dict[str, Any]) -> tuple[Check, ...]:
    """Return a check whose findings are waived and known, one that is known, one with others, one left out."""
    waived = replace(finding, accepted=Accepted(kind="waived", reason=text, owner=text, expires="2030-01-01"))
    known = replace(finding, accepted=Accepted(kind="known"))
    both: dict[str, Any] = {"severity": "error", "required": True, "waivable": True, **common}
    return (
        Check(id="LIC001", title="a", status="waived", count=2, waived=1, known=1, findings=(waived, known), **both),
        Check(id="LIC002", title="b", status="known", count=1, known=1, findings=(known,), **both),
        Check(id="LIC003", title="c", status="fail", count=2, waived=1, findings=(finding, waived), **both),
        Check(
            id="LIC005",
            title="d",
            status="not-evaluated",
            reason="not selected",
            **{**both, "required": False},
            selected=False,
        ),
    )
