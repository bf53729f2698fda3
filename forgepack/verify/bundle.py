"""A whole release under verification: release.json, the target and the drafter in one folder, perhaps in part.

A bundle is a pair whose parts are where release.json says, with the inputs that only a release has. A partial
download is understood: the export may be missing as a whole, a second runtime too, the drafter only by --plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.release_json import RELEASE_FILE, Release, read_release
from forgepack.artifacts.release_record import MAX_SUMS, RECORD_FILE, SUMS_FILE, UPSTREAM_FILE, parse_sums
from forgepack.artifacts.target import TargetPaths, find_export
from forgepack.errors import ForgepackError, MissingError, NothingToVerifyError
from forgepack.profile import Profile
from forgepack.verify.checks.release_files import listed_files
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs.hashing import Digests, hash_files
from forgepack.verify.inputs.input_set import Tree
from forgepack.verify.inputs.layout import Layout, empty_layout
from forgepack.verify.inputs.readers import read_any, read_record
from forgepack.verify.inputs.reading import Input, Parsed
from forgepack.verify.inputs.sources import Sources, absolute, demand_folder, demand_sources
from forgepack.verify.open_pair import OpenPair, planned_files

FOLDERS = {"model": "model", "coreai": "coreai", "export": "export", "drafter": "drafter"}
NOT_THERE = "the bundle has none; a download by Forge's own helper leaves it out"


def find_bundle(
    root: Path,
    *,
    quant: Path | None = None,
    checkpoint: Path | None = None,
    traces: Path | None = None,
    plain: bool = False,
    allow_links: bool = False,
) -> Sources:
    """Locate the parts of a bundle by its release.json; of a damaged one (a finding) in the usual places.

    Raises UsageError for a path that is not a folder and NothingToVerifyError for a folder without release.json.
    """
    demand_folder(root, "the bundle")
    demand_sources(quant, checkpoint, traces)
    bundle = absolute(root)
    folders = {**FOLDERS, **_stated_folders(bundle)}
    build = bundle / folders["coreai"]
    paths = TargetPaths(
        model=bundle / folders["model"], build=build, export=find_export(bundle / folders["export"], build)
    )
    named = {"bundle": root, "quant": quant, "checkpoint": checkpoint, "traces": traces}
    return Sources(
        drafter=bundle / folders["drafter"],
        target=paths,
        root=bundle,
        quant=absolute(quant),
        checkpoint=absolute(checkpoint),
        traces=absolute(traces),
        named={role: path.as_posix() for role, path in named.items() if path is not None},
        allow_links=allow_links,
        bundle=bundle,
        plain=plain,
    )


def _stated_folders(bundle: Path) -> dict[str, str]:
    try:
        release, _ = read_release(bundle / RELEASE_FILE)
    except MissingError as err:
        raise NothingToVerifyError(
            "the folder holds no release",
            where=str(bundle),
            expected=RELEASE_FILE,
            found="no such file",
            hint="name a folder that forgepack bundle wrote; a drafter and a target apart: "
            "forgepack verify DRAFTER --target DIR",
        ) from err
    except ForgepackError:
        return {}
    return {} if release is None else release.roots


class Bundle(OpenPair):
    """A pair in the folder of a release; ``known`` are digests that need no reading, by absolute path."""

    def __init__(
        self,
        sources: Sources,
        profile: Profile,
        depth: Depth,
        *,
        seconds: float = 600.0,
        blocks: int | None = None,
        known: Mapping[Path, Any] | None = None,
    ) -> None:
        assert sources.bundle is not None
        self.root = sources.bundle
        self._known: Digests | None = known
        super().__init__(sources, profile, depth, seconds=seconds, blocks=blocks)

    def _open_drafter(self) -> tuple[Input[Tree], Layout]:
        """List the drafter; one that is not there is a finding of a bundle, not the end of its verification."""
        try:
            return super()._open_drafter()
        except (MissingError, NothingToVerifyError):
            root = self.sources.drafter
            return Input("tree", lambda: _no_drafter(root)), empty_layout(root, self.profile.package)

    def _add_release(self) -> None:
        root = self.root
        self.release = self._file("release", root / RELEASE_FILE, _read_release)
        self.bundle_tree = self._tree("bundle_tree", root)
        self.record = self._optional("record", root / RECORD_FILE, read_record)
        self.upstream_record = self._optional("upstream_record", root / UPSTREAM_FILE, read_any)
        self.sums = self._optional("sums", root / SUMS_FILE, _read_sums)

    def _optional(self, name: str, path: Path, read: Any) -> Input[Any]:
        there = path.exists() or path.is_symlink()
        return self._file(name, path if there else None, read, absent=NOT_THERE)

    def _digests(self) -> Parsed[Digests]:
        if self._known is not None:
            return Parsed(value=self._known)
        listed = listed_files(self) if self.release.available and self.bundle_tree.available else ()
        there = (self.root / file.path for file in listed)
        return hash_files({*planned_files(self), *(path for path in there if path.is_file())})


def _no_drafter(root: Path) -> Tree:
    raise MissingError(
        "the bundle's drafter is not there",
        where=str(root),
        hint="download it, or add --plain to look at the target alone",
        code="missing",
    )


def _read_release(path: Path) -> Parsed[Release]:
    release, faults = read_release(path)
    return Parsed(value=release, faults=faults)


def _read_sums(path: Path) -> Mapping[str, str]:
    return parse_sums(read_bounded(path, MAX_SUMS), where=str(path))
