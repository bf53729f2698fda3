"""Which files a bundle takes from target and drafter, and where they go; nothing is read but folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.files import open_regular
from forgepack.artifacts.release_json import MODEL_FILES, MODEL_REQUIRED
from forgepack.artifacts.target import TargetPaths, read_manifest
from forgepack.artifacts.tree import JUNK, Entry, unsafe_reason, walk
from forgepack.errors import CorruptError, MissingError
from forgepack.profile import Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleInputs:
    """What a bundle is made of. ``root`` is the target's release root, where its LICENSE and NOTICE are.

    ``documents`` is a folder whose README.md, LICENSE, NOTICE, MODIFICATIONS.md or QWEN_SOURCE.json replace the
    written ones; ``export`` says whether the quantized export goes along; links are copied by content when
    ``allow_links`` is set, refused otherwise.
    """

    drafter: Path
    target: TargetPaths
    root: Path | None
    upstream: Upstream
    documents: Path | None = None
    export: bool = True
    allow_links: bool = False

    def places(self) -> dict[str, Path | None]:
        """Return role -> folder of everything that is read: no output may stand there."""
        return {
            "the drafter": self.drafter,
            "the target": self.root,
            "the target's model": self.target.model,
            "the target's build": self.target.build,
            "the target's export": self.target.export,
            "the documents": self.documents,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """One file to copy: where it is, its path in the bundle, its component, its size in bytes."""

    source: Path
    path: str
    component: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All files to copy, sorted by path, and the paths of those that are left behind."""

    files: tuple[PlannedFile, ...]
    left_behind: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)


def take_inventory(inputs: BundleInputs) -> Inventory:
    """List what the bundle will hold: the allowed files of model/, the whole build, export and drafter, junk aside.

    Raises MissingError for a part or a required file that is not there, CorruptError for links, special files and
    names that can't be used everywhere.
    """
    target, export = inputs.target, inputs.target.export
    parts = [
        ("model", target.model, "model"),
        ("coreai", target.build, "coreai"),
        ("drafter", inputs.drafter, "drafter"),
    ]
    if inputs.export:
        if export is None:
            raise MissingError(
                "the target's export is missing",
                where=str(target.build.parent / "export"),
                hint="name it with --target-export, or leave it out with --no-export",
                code="export-missing",
            )
        parts.append(("export", export, f"export/{_export_name(target, export)}"))
    found = [
        file for component, root, prefix in parts for file in _files(component, root, prefix, inputs.allow_links)
    ]
    taken = [file for file in found if _belongs(file)]
    _demand_model(taken, target.model)
    return Inventory(
        files=tuple(sorted(taken, key=lambda file: file.path)),
        left_behind=tuple(sorted(file.path for file in found if not _belongs(file))),
    )


def _export_name(target: TargetPaths, export: Path) -> str:
    """Return manifest.export, by which the export is known; a rotated target keeps its head under another name."""
    manifest = read_manifest(target.build)
    return manifest.export if manifest.basis is None else export.name


def _files(component: str, root: Path, prefix: str, allow_links: bool) -> Iterator[PlannedFile]:
    for entry in walk(root):
        source = root / entry.path
        if entry.kind == "folder" or JUNK.search(entry.path):
            continue
        if entry.kind != "file" and not (entry.kind == "link" and allow_links and source.is_file()):
            raise _not_a_file(source, entry)
        reason = unsafe_reason(f"{prefix}/{entry.path}")
        if reason is not None:
            where = f"{entry.path!r} {reason}"
            raise CorruptError(
                "a name can't be used on every system", where=str(root), found=where, code="path-escape"
            )
        size = entry.size if entry.kind == "file" else source.stat().st_size
        yield PlannedFile(source=source, path=f"{prefix}/{entry.path}", component=component, bytes=size)


def _not_a_file(source: Path, entry: Entry) -> CorruptError:
    if entry.kind == "link":
        return CorruptError(
            "a symbolic link stands in place of a file",
            where=str(source),
            found=f"a link to {entry.target}",
            hint="a bundle holds files: replace the link, or copy what it leads to with --allow-links",
            code="link",
        )
    return CorruptError("not a regular file", where=str(source), expected="a regular file", code="not-regular")


def _belongs(file: PlannedFile) -> bool:
    """Model shards and notes stay behind: model/ of a release is a closed list."""
    return file.component != "model" or file.path.removeprefix("model/") in MODEL_FILES


def _demand_model(files: list[PlannedFile], model: Path) -> None:
    there = {file.path for file in files}
    for name in MODEL_REQUIRED:
        if f"model/{name}" not in there:
            raise MissingError("a file of the target's model is missing", where=str(model / name), code="missing")


def read_optional_text(path: Path) -> bytes | None:
    """Return a small text, None where there is no such file."""
    try:
        with open_regular(path) as handle:
            return handle.read(1 << 20)
    except MissingError:
        return None
