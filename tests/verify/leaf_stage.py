"""A whole release of the miniature's or the tiny pair, with its sources, whose JSON leaves are changed one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.target import locate_target
from forgepack.profile import Profile, Upstream
from forgepack.release.bundle.inventory import BundleInputs
from forgepack.release.bundle.make import make_bundle
from forgepack.verify.bundle import Bundle, find_bundle
from forgepack.verify.checks.coverage_leaves import Leaf
from forgepack.verify.checks.leaves import Keys, leaves_of, line_of, path_of
from forgepack.verify.engine import evaluate
from forgepack.verify.findings.report import Check, Depth
from forgepack.verify.inputs.hashing import FileDigest
from forgepack.verify.inputs.reading import Input
from forgepack.verify.policy.rule import find_rule
from tests.mutation.json_mutants import changes

_SLOW = ("expected", "program", "target_programs", "export_digest", "comparison")
# The first of these that a value has is the change that a rule must see.
_KINDS = ("value", "off by one", "one part in a million", "empty", "type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One leaf of one document: its file below the stage, the document's name in the table, keys and line."""

    file: Path
    document: str
    keys: Keys
    value: Any
    line: Leaf | None

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.document}: {path_of(self.keys)}"


def bundle_pair(root: Path, profile: Profile) -> Path:
    """Bundle ``root``/drafter and target into ``root``/release."""
    target = root / "target"
    upstream = Upstream(id="tests/target", revision="ab" * 20)
    inputs = BundleInputs(drafter=root / "drafter", target=locate_target(target), root=target, upstream=upstream)
    make_bundle(inputs, root / "release", profile=profile)
    return root


class LeafStage:
    """The release with checkpoint and quant beside it: what is slow is read once."""

    def __init__(self, root: Path, profile: Profile) -> None:
        self.root, self.profile = root, profile
        base = self._bundle()
        with base.read_ahead():
            self._values = {name: base.input(name).value for name in _SLOW}
        self._digests: dict[Path, FileDigest] = dict(base.digests.value)

    def _bundle(self) -> Bundle:
        root = self.root
        found = find_bundle(root / "release", quant=root / "quant", checkpoint=root / "checkpoint")
        return Bundle(found, self.profile, Depth.LINEAGE, seconds=60)

    def leaves(self) -> Iterator[Found]:
        """Yield every leaf of every JSON document."""
        for part in ("release", "checkpoint", "quant"):
            for file in sorted((self.root / part).rglob("*.json")):
                document = file.relative_to(self.root).as_posix().removeprefix("release/")
                for keys, value in leaves_of(json.loads(file.read_bytes())):
                    line = line_of(document, path_of(keys))
                    yield Found(file=file, document=document, keys=keys, value=value, line=line)

    def ids_after(self, leaf: Found, value: Any, rules: tuple[str, ...]) -> list[str]:
        """Return which of ``rules`` fail when a leaf has another value."""
        kept = leaf.file.read_bytes()
        raw = node = json.loads(kept)
        for key in leaf.keys[:-1]:
            node = node[key]
        node[leaf.keys[-1]] = value
        try:
            leaf.file.write_text(json.dumps(raw))
            return [check.id for check in self._checks(leaf.file, rules) if check.status == "fail"]
        finally:
            leaf.file.write_bytes(kept)

    def check(self, ident: str, file: Path | None = None) -> Check:
        """Evaluate one rule on the release as it is; ``file`` was changed since it was read."""
        return self._checks(file, (ident,))[0]

    def _checks(self, file: Path | None, rules: tuple[str, ...]) -> list[Check]:
        digests = dict(self._digests)
        if file in digests:
            size, sha256 = hash_file(file)
            digests[file] = FileDigest(bytes=size, sha256=sha256)
        pair = self._bundle()
        for name, value in {**self._values, "digests": digests}.items():
            setattr(pair, name, Input(name, lambda known=value: known, depth=pair.input(name).depth))  # type: ignore[misc]
        return [evaluate(find_rule(ident), pair, []) for ident in rules]


def first_change(value: Any) -> Any:
    """Return another value of the same kind."""
    found = dict(changes(value))
    return next(found[kind] for kind in _KINDS if kind in found)


def sampled(leaves: Iterator[Found], key: Callable[[Found], Any]) -> list[Found]:
    """Return the first leaf of each group."""
    groups: dict[Any, Found] = {}
    for leaf in leaves:
        groups.setdefault(key(leaf), leaf)
    return list(groups.values())
