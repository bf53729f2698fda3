"""Reports made by hand, with hostile text wherever text of a file can end up."""

from __future__ import annotations

from hypothesis import strategies as st

from forgepack.verify.report import Check, Depth, Failure, Finding, Identity, Report

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
    """Return a report with a check of each outcome, every free text of which is ``text``."""
    finding = Finding(subject=text, expected=text, found=text, where=f"drafter/{text}: {text}", message=text)
    common = {"why": "it matters", "remedy": "mend it", "depth": Depth.HEADER}
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
    )
