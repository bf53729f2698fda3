"""A set of inputs checked at one depth: how they are declared, found and shown, whatever they are inputs of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.artifacts.tree import Entry, walk
from forgepack.profile import Profile
from forgepack.verify.findings.report import Depth, Failure, failure_of
from forgepack.verify.inputs.readers import read_header
from forgepack.verify.inputs.reading import Input, Parsed
from forgepack.verify.inputs.sources import Sources, guard_links
from forgepack.verify.policy.acceptance import AcceptanceRecord

T = TypeVar("T")
Tree = tuple[Entry, ...]


class InputSet:
    """Attributes that are inputs of ``sources`` under a profile; each input says what it reads.

    ``acceptance`` holds the policy of the verification, and its account of waivers and known findings.
    """

    def __init__(self, sources: Sources, profile: Profile, depth: Depth) -> None:
        self.sources = sources
        self.profile = profile
        self.depth = depth
        self.acceptance = AcceptanceRecord()

    def inputs(self) -> tuple[Input[Any], ...]:
        """Return every input, in the order of their definition."""
        return tuple(value for value in vars(self).values() if isinstance(value, Input))

    def judged(self) -> Iterator[Input[Any]]:
        """Yield the inputs whose faults count: those of this depth, and deeper ones that a rule had to look at."""
        return (source for source in self.inputs() if source.depth <= self.depth or source.settled)

    def input(self, name: str) -> Input[Any]:
        """Return the input of that name."""
        found = getattr(self, name)
        assert isinstance(found, Input), name
        return found

    def show(self, where: str) -> str:
        """Return a place with the root that it is in replaced by the root's role."""
        return self.sources.show(where)

    def place(self, path: Path, part: str = "") -> str:
        """Return a place to show: the file by its role, and the JSON path or tensor in it."""
        shown = self.show(path.as_posix())
        return f"{shown}: {part}" if part else shown

    def failures(self, *, unread: bool = True) -> list[Failure]:
        """Return what kept inputs at this depth from being read at all; with ``unread`` the others are read, too."""
        sources = [source for source in self.judged() if unread or source.settled]
        found = [err for source in sources for err in source.stoppers]
        return [failure_of(err, self.show(err.where or "")) for err in found]

    def _file(
        self,
        name: str,
        path: Path | None,
        read: Callable[[Path], T | Parsed[T]],
        *,
        depth: Depth = Depth.HEADER,
        absent: str | None = None,
    ) -> Input[T]:
        """Declare an input read from one path, links checked first; ``absent`` counts only where there is no path."""
        if path is None:
            return Input(name, never, depth=depth, absent=absent)

        def guarded() -> T | Parsed[T]:
            roots = (*self.sources.roots().values(), path.parent)
            root = next(r for r in roots if path.is_relative_to(r))
            guard_links(root, path, allowed=self.sources.allow_links)
            return read(path)

        return Input(name, guarded, depth=depth)

    def _safetensors(
        self, name: str, folder: Path | None, file: str, *, absent: str | None = None
    ) -> Input[SafetensorsFile]:
        return self._file(name, below(folder, file), read_header, absent=absent)

    def _tree(self, name: str, root: Path | None, *, absent: str | None = None) -> Input[Tree]:
        return Input(name, never if root is None else lambda: walk(root), absent=absent if root is None else None)


def never() -> Any:
    """Stand for the reader of an input that is legally absent."""
    raise AssertionError("an absent input is never read")


def below(root: Path | None, name: str) -> Path | None:
    """Return a file's place below a root, None where there is no root."""
    return None if root is None else root / name
