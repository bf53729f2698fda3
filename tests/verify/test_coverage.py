"""The table of what judges which file leaves no file without an answer, and what it says is true."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from forgepack.artifacts.target import locate_target
from forgepack.miniature.data import find_miniature
from forgepack.verify.checks.coverage import FILES, Covered, covering
from forgepack.verify.engine import evaluate
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from forgepack.verify.policy.rule import all_rules, find_rule
from tests.verify.factory import tiny_profile

# Files that no release of the tests holds, each of a line that is there for them.
OTHERS = [
    "drafter/README.md",
    "drafter/weights.bin",
    "model/model-00001-of-00012.safetensors",
    "coreai/basis.json",
    "coreai/chunk_L00-03.aimodelc/model.bin",
    "coreai/rope.npy",
    "export/basis.json",
    "export/config.json",
    "export/model.safetensors.index.json",
    "checkpoint/README.md",
    "checkpoint/adapter.bin",
    "quant/notes.txt",
    "release.json",
    "forgepack.json",
    "SHA256SUMS",
    "LICENSE",
    "config.json",
    "evil.sh",
]


def files_of(root: Path, target: Path) -> Iterator[str]:
    """Yield every file of a pair and its sources, by its place in a report."""
    paths = locate_target(target)
    parts = {"drafter": root / "drafter", "checkpoint": root / "checkpoint", "quant": root / "quant"}
    parts |= {"model": paths.model, "coreai": paths.build, "export": paths.export or target}
    for role, folder in parts.items():
        yield from sorted(f"{role}/{p.relative_to(folder).as_posix()}" for p in folder.rglob("*") if p.is_file())


def test_every_line_is_of_rules_that_exist_and_of_files_that_there_are(full_pair: Path) -> None:
    """No line names a rule that is not there, matches nothing, or neither judges nor says why not."""
    known = {one.id for one in all_rules()}
    found = [*files_of(full_pair, full_pair / "target"), *OTHERS]
    matched = {covering(path).pattern for path in found}
    for line in FILES:
        assert set(line.judged) <= known, line
        assert line.judged or line.reason, line
        assert line.pattern in matched, line


@pytest.mark.parametrize("release", ["tiny", "miniature"])
def test_every_file_has_a_line_of_its_own(full_pair: Path, release: str) -> None:
    """No file of a full_pair release is covered by a line that takes whatever is left."""
    target = full_pair / "target" if release == "tiny" else find_miniature().target
    rest = {line.pattern for line in FILES if re.search(r"(/|^)\.\*$", line.pattern)}
    for path in files_of(full_pair, target):
        assert covering(path).pattern not in rest, path


def spoil(path: Path) -> None:
    """Change one byte in the middle of a file; of a text a letter or digit, so that it stays one."""
    data = bytearray(path.read_bytes())
    text = path.suffix in (".json", ".txt", ".jinja") or path.name in ("LICENSE", "NOTICE")
    places = range(len(data) // 2, len(data))
    place = next(n for n in places if not text or chr(data[n]).isalnum())
    data[place] = ord("1" if data[place] != ord("1") else "2") if text else data[place] ^ 1
    path.write_bytes(data)


def by_line(root: Path) -> dict[Covered, str]:
    """Return a file of each line that says it is judged, among those of a pair."""
    found: dict[Covered, str] = {}
    for path in files_of(root, root / "target"):
        if covering(path).judged:
            found.setdefault(covering(path), path)
    return found


def test_a_spoiled_file_is_told_by_one_of_its_rules(full_pair: Path, tmp_path: Path, *, whole: bool) -> None:
    """A bit of a file of each line, else of every third, is refused, or warned of, by a rule that the line names."""
    root = Path(shutil.copytree(full_pair, tmp_path / "pair"))
    paths = locate_target(root / "target")
    roots = {"model": paths.model, "coreai": paths.build, "export": paths.export}
    sources = find_sources(root / "drafter", root / "target", quant=root / "quant", checkpoint=root / "checkpoint")
    for line, path in islice(by_line(root).items(), random.randrange(3), None, 1 if whole else 3):
        role, _, rest = path.partition("/")
        file = (roots.get(role) or root / role) / rest
        before = file.read_bytes()
        spoil(file)
        pair = OpenPair(sources, tiny_profile(), Depth.LINEAGE, seconds=60)
        cheap = sorted((find_rule(ident) for ident in line.judged), key=lambda one: one.depth)
        assert any(evaluate(one, pair, []).status == "fail" for one in cheap), path
        file.write_bytes(before)
