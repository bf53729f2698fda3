"""Hold the documentation against the code: ``python -m tests.docs.check``; ``--update`` writes what differs again.

Reference pages and generated parts are made from the code; sessions are run on the miniature and compared; links
must resolve. Prints what differs and exits with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from forgepack.miniature.scene import Scene
from tests.docs.links import broken_links
from tests.docs.pages import blocks_of, find_pages, name_of, scene_of
from tests.docs.reference import generated_files
from tests.docs.sessions import fault_of, play, rewritten, set_scene
from tests.release.scenes import build_scene


def check_generated(*, update: bool) -> list[str]:
    """Return what of the generated files and parts is not as the code makes it; write it again when asked."""
    faults = []
    for page, text in generated_files().items():
        if not page.is_file() or page.read_text("utf-8") != text:
            faults.append(f"{name_of(page)} is not what the code gives")
            if update:
                page.write_text(text, "utf-8")
    return faults


def check_sessions(page: Path, work: Path, built: Scene, *, update: bool = False) -> list[str]:
    """Run a page's sessions below ``work`` and return what differs; write the page again when asked."""
    text = page.read_text("utf-8")
    blocks = blocks_of(text)
    if not blocks:
        return []
    scene = scene_of(text)
    if scene is None:
        return [f"{name_of(page)} shows sessions and names no scene: <!-- session: empty --> or pair"]
    folder = work / Path(name_of(page)).with_suffix("") / "work"  # two pages may share their last name
    folder.mkdir(parents=True)
    outcomes = play(blocks, folder, set_scene(scene, folder, built))
    steps = [step for block in blocks for step in block.steps]
    found = [fault_of(step, outcome) for step, outcome in zip(steps, outcomes, strict=True)]
    if update and any(found):
        page.write_text(rewritten(text, blocks, outcomes), "utf-8")
    return [f"{name_of(page)}: {fault}" for fault in found if fault is not None]


def main() -> int:
    """Check all, or only the pages that are named; return the exit code."""
    parser = argparse.ArgumentParser(prog="make check-readme", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="only the sessions of these pages")
    parser.add_argument("--made", action="store_true", help="only what is made from the code, and links; no session")
    parser.add_argument("--update", action="store_true", help="write what differs again")
    options = parser.parse_args()
    faults = check_generated(update=options.update) + broken_links()
    if not options.made:
        faults += all_sessions([path.resolve() for path in options.pages], update=options.update)
    sys.stdout.write("".join(f"{fault}\n" for fault in faults) or "README and docs are as the code is\n")
    return 1 if faults else 0


def all_sessions(pages: list[Path], *, update: bool) -> list[str]:
    """Run the sessions of the pages, by default of all, and return what differs."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="forgepack-docs-") as work:
        built = build_scene(Path(work, "built"))
        for page in pages or find_pages():
            faults += check_sessions(page, Path(work), built, update=update)
    return faults


if __name__ == "__main__":
    sys.exit(main())
