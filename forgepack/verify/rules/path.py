"""PATH: names and kinds of files that are one thing on one system and another thing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from forgepack.artifacts.tree import JUNK, Entry, collisions, unsafe_reason
from forgepack.escaping import told_apart
from forgepack.verify.checks.coverage import is_known_in_another_case
from forgepack.verify.checks.faults import reported
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_TREES = ("tree", "model_tree", "build_tree", "export_tree", "checkpoint_tree", "quant_tree")


def _entries(pair: Pair) -> Iterator[tuple[Path, Entry]]:
    """Yield (root, entry) of everything below each part that can be listed."""
    roots = {
        "tree": pair.sources.drafter,
        "model_tree": pair.sources.target.model,
        "build_tree": pair.sources.target.build,
        "export_tree": pair.sources.target.export,
        "checkpoint_tree": pair.sources.checkpoint,
        "quant_tree": pair.sources.quant,
    }
    for name in _TREES:
        source, root = pair.input(name), roots[name]
        if root is not None and source.available:
            yield from ((root, entry) for entry in source.value)


@rule(
    "PATH001",
    title="no path that a file names leads outside its folder",
    fails="a path that a file names leads outside its folder",
    why="a path from a file that climbs out or names another drive reads what the release does not hold",
    remedy="correct the field: a relative POSIX path below the folder",
    codes=("path-escape",),
)
def path_escape(pair: Pair) -> Iterator[Finding]:
    """Paths in the manifest and in the lock are safe by POSIX and Windows rules alike."""
    yield from reported(pair, "PATH001")
    if not pair.manifest.available:
        return
    raw = pair.manifest.value.raw
    packages = [("head", raw["head"])] + [(f"chunks[{n}]", chunk) for n, chunk in enumerate(raw["chunks"])]
    for name, package in packages:
        compiled = package.get("compiled")
        reason = unsafe_reason(compiled) if isinstance(compiled, str) else None
        if reason is not None:
            where = pair.place(pair.manifest.value.path, f"{name}.compiled")
            yield Finding(subject=where, expected="a path below it", found=f"{compiled!r} {reason}", where=where)


@rule(
    "PATH002",
    title="no symbolic link stands in place of a file",
    fails="a symbolic link is in place of a file",
    why="a link's content can change or be another machine's; copied, it breaks or takes a secret along",
    remedy="replace the link by the file, or pass --allow-links for a hub cache",
    codes=("link", "link-loop", "link-dangling"),
    each_of=_TREES,
)
def links(pair: Pair) -> Iterator[Finding]:
    """No part holds a link, unless links are allowed and lead to regular files."""
    for root, entry in _entries(pair):
        if entry.kind != "link":
            continue
        path = root / entry.path
        if not pair.sources.allow_links:
            yield _link(pair, path, "the file itself", f"a link to {entry.target}")
        elif not path.is_file():
            yield _link(pair, path, "a link to a file", f"a link to {entry.target}, which is not a file")


def _link(pair: Pair, path: Path, expected: str, found: str) -> Finding:
    place = pair.place(path)
    return Finding(subject=place, expected=expected, found=found, where=place)


@rule(
    "PATH003",
    title="every entry is a regular file or a folder",
    why="a pipe, socket or device blocks its reader, or feeds it without end",
    remedy="remove the entry, restore the file",
    codes=("not-regular",),
    each_of=_TREES,
)
def special_files(pair: Pair) -> Iterator[Finding]:
    """No part holds a pipe, socket or device, and no folder stands where a file must be."""
    seen = set()
    for finding in reported(pair, "PATH003"):
        seen.add(finding.where)
        yield finding
    for root, entry in _entries(pair):
        place = pair.place(root / entry.path)
        if entry.kind == "special" and place not in seen:
            found = "a pipe, socket or device"
            yield Finding(subject=place, expected="a regular file", found=found, where=place)


@rule(
    "PATH004",
    title="no two names are one where case or Unicode form is ignored",
    fails="two names are one where case or Unicode form is ignored",
    why="on macOS and Windows one of the two files is lost at checkout or copy",
    remedy="rename or remove one of the two",
    codes=("case-collision",),
    each_of=_TREES,
)
def name_collisions(pair: Pair) -> Iterator[Finding]:
    """Names below each part, and those that tools look for, stay distinct under case folding and normalization."""
    yield from reported(pair, "PATH004")
    by_root: dict[Path, list[str]] = {}
    for root, entry in _entries(pair):
        by_root.setdefault(root, []).append(entry.path)
    for root, paths in by_root.items():
        for first, second in collisions(paths):
            place, (name, other) = pair.place(root / second), told_apart(second, first)
            found, message = f"collides with '{other}'", "" if name == second else f"this one is '{name}'"
            expected = "a name of its own"
            yield Finding(subject=place, expected=expected, found=found, where=place, message=message)
        for place in sorted(pair.place(root / path) for path in paths):
            if is_known_in_another_case(place):
                expected, found = (
                    "the file's own spelling, or another name",
                    "the name of a known file in another case",
                )
                yield Finding(subject=place, expected=expected, found=found, where=place)


@rule(
    "PATH005",
    title="no file name of the package is unusable on another system",
    fails="a file name of the package is unusable on another system",
    why="reserved names, control characters, trailing dots and backslashes break or disguise a file elsewhere",
    remedy="rename or remove the file",
    waivable=True,
)
def file_names(pair: Pair) -> Iterator[Finding]:
    """Names below the drafter folder are safe by POSIX and Windows rules."""
    for entry in pair.tree.value:
        reason = unsafe_reason(entry.path)
        if reason is None and not entry.path.isprintable():
            reason = "holds invisible characters"
        if reason is not None:
            place = pair.place(pair.sources.drafter / entry.path)
            yield Finding(subject=place, expected="a portable name", found=f"{entry.path!r} {reason}", where=place)


@rule(
    "PATH006",
    title="no part holds files that operating systems leave behind",
    fails="there are files that operating systems leave behind",
    why="AppleDouble and thumbnail files break loaders that list a folder",
    remedy="remove them",
    severity="warning",
    each_of=_TREES,
)
def junk(pair: Pair) -> Iterator[Finding]:
    """No .DS_Store, ._ file, Thumbs.db, desktop.ini or __MACOSX is in any part."""
    for root, entry in _entries(pair):
        if JUNK.search(entry.path):
            place = pair.place(root / entry.path)
            yield Finding(subject=place, expected="no such file", found="left by an operating system", where=place)
