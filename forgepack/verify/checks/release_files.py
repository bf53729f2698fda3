"""Which files of a release are here, which must be, and which nothing lists."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.artifacts.release_json import ReleaseFile
from forgepack.verify.inputs.pair import Pair


def present_files(pair: Pair) -> dict[str, int]:
    """Return path -> bytes of every file below the bundle's folder; links count where they are allowed."""
    root, links = pair.sources.bundle, pair.sources.allow_links
    assert root is not None
    found = {entry.path: entry.size for entry in pair.bundle_tree.value if entry.kind == "file"}
    for entry in pair.bundle_tree.value:
        if entry.kind == "link" and links and (root / entry.path).is_file():
            found[entry.path] = (root / entry.path).stat().st_size
    return found


def left_out(pair: Pair) -> dict[str, str]:
    """Return the components that this copy of the release legally lacks, each with the reason."""
    release, present = pair.release.value, present_files(pair)
    reasons = {
        "export": "optional: none of its files is here",
        "coreml": "another runtime: none of its files is here",
    }
    found = {
        name: reason
        for name, reason in reasons.items()
        if release.of(name) and not any(file.path in present for file in release.of(name))
    }
    return {**found, "drafter": "left out by --plain"} if pair.sources.plain else found


def listed_files(pair: Pair) -> tuple[ReleaseFile, ...]:
    """Return the files of the inventory that must be in this copy."""
    absent = left_out(pair)
    return tuple(file for file in pair.release.value.files if file.component not in absent)


def unlisted_files(pair: Pair) -> Iterator[tuple[str, str]]:
    """Yield (component, path) of every file in a component's folder that the inventory does not list."""
    release, listed = pair.release.value, {file.path for file in pair.release.value.files}
    roots = {name: root for name, root in release.roots.items() if not (name == "drafter" and pair.sources.plain)}
    for path in sorted(present_files(pair)):
        component = next((name for name, root in roots.items() if path.startswith(f"{root}/")), None)
        if component is not None and path not in listed:
            yield component, path
