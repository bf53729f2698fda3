"""README and docs are as the code is: made parts, sessions, links, and the tools that hold them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forgepack.miniature.scene import Scene
from tests.docs.check import check_generated, check_sessions
from tests.docs.links import broken_links
from tests.docs.pages import ROOT, Step, anchors_of, blocks_of, find_pages, links_of, name_of
from tests.docs.reference_commands import find_command
from tests.docs.sessions import Outcome, fault_of, rewritten

WITH_SESSIONS = [page for page in find_pages() if blocks_of(page.read_text("utf-8"))]


def test_made_pages_are_what_the_code_gives() -> None:
    """Reference pages and tables of the README; make check-readme ARGS=--update writes them again."""
    assert [] == check_generated(update=False)


@pytest.mark.parametrize("page", WITH_SESSIONS, ids=name_of)
def test_sessions_print_what_pages_show(page: Path, scene: Scene, tmp_path: Path) -> None:
    """Every command of a page's sessions ends and prints as shown; make check-readme ARGS=--update rewrites."""
    assert [] == check_sessions(page, tmp_path, scene)


def test_the_pages_that_must_show_sessions_do() -> None:
    """The README, the tutorial and the how-tos that promise output are among those that are run."""
    names = {name_of(page) for page in WITH_SESSIONS}
    promised = {"README.md", "docs/tutorial/README.md", "docs/how-to/measure-and-gate.md"}
    assert promised <= names


def test_commands_in_shell_blocks_exist() -> None:
    """Each forgepack command in a block of ``sh`` is one of the tool's, with its options."""
    checked = 0
    for page in find_pages():
        for body in re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            plain = body.replace("\\\n", " ")
            for name, rest in re.findall(r"\bforgepack (?:-\S+ )*([a-z]+)([^|;&\n]*)", plain):
                known = {text for param in find_command(name).params for text in param.opts}
                assert set(re.findall(r"(?<= )--[a-z-]+", rest)) <= known, (name_of(page), name)
                checked += 1
    assert checked >= 8


def test_links_lead_somewhere() -> None:
    """Each relative link of each page leads to a file that is there, and to a heading that it has."""
    assert [] == broken_links()
    assert sum(len(links_of(page.read_text("utf-8"))) for page in find_pages()) > 50


def test_every_page_is_reached_from_the_index() -> None:
    """docs/README.md links to every page of docs/, the README to the index."""
    index = ROOT / "docs/README.md"
    reached = {(index.parent / link.partition("#")[0]).resolve() for link in links_of(index.read_text("utf-8"))}
    assert [] == [name_of(p) for p in ROOT.glob("docs/**/*.md") if p != index and p.resolve() not in reached]
    assert "docs/README.md" in links_of((ROOT / "README.md").read_text("utf-8"))


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("other.md", None),
        ("other.md#a-heading-with-code", None),
        ("#top", None),
        ("https://example.org/x", None),
        ("absent.md", "leads nowhere"),
        ("other.md#absent", "has no such heading"),
        ("#absent", "has no such heading"),
        ("http://example.org", "leaves the repository"),
    ],
)
def test_broken_links_are_found(tmp_path: Path, link: str, fault: str | None) -> None:
    """A missing file, a missing heading and a plain http link are faults; links in code are none."""
    (tmp_path / "other.md").write_text("# A heading, with `code`!\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Top\n[x]({link})\n```\n[y](nowhere.md)\n```\n`[z](nowhere.md)`\n")
    assert ([] if fault is None else [f"page.md: {link} {fault}"]) == broken_links([page])


def test_headings_that_repeat_are_numbered() -> None:
    """Anchors are GitHub's."""
    assert {"a", "a-1", "b-c_d"} == anchors_of("# A\n## A\n# B [c_d](x)\n")


@pytest.mark.parametrize(
    ("shown", "found", "alike"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["...", "d"], ["a", "b", "c"], False),
        (["sha256 …, 5 bytes"], ["sha256 abc, 5 bytes"], True),
        (["sha256 …, 5 bytes"], ["sha256 abc, 6 bytes"], False),
        (["accepted 4.681 of 7"], ["accepted 4.702 of 7"], True),
        (["accepted 4.681 of 7"], ["accepted 3.702 of 7"], False),
        (["delta +0.026"], ["delta -0.310"], False),
        (["PASS"], ["FAIL"], False),
        (["x (1.5)"], ["x [1.5]"], False),
    ],
)
def test_output_is_compared(shown: list[str], found: list[str], alike: bool) -> None:
    """Text and whole numbers must be equal, decimals about equal; ellipses take anything."""
    step = Step(command="x", output=tuple(shown))
    assert alike == (fault_of(step, Outcome(code=0, lines=tuple(found))) is None)


def test_exit_codes_are_compared() -> None:
    """A command that ends otherwise than its page says is a fault, also where no output is shown."""
    step = Step(command="x", output=(), code=1)
    assert fault_of(step, Outcome(code=0, lines=())) is not None
    assert fault_of(step, Outcome(code=1, lines=("anything",))) is None


def test_a_page_is_rewritten_where_it_differs() -> None:
    """Only the output that is wrong changes, and digests are left out of what is written."""
    text = "a\n```console\n$ one\nold\n$ two \\\n    more\n...\n```\nb\n"
    blocks = blocks_of(text)
    digest = "0123456789abcdef" * 4
    outcomes = [Outcome(code=0, lines=(f"new {digest}",)), Outcome(code=0, lines=("kept",))]
    assert text.replace("old", "new …") == rewritten(text, blocks, outcomes)
