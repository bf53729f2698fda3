"""How each input of a pair is read: the one place where helpers that take a pair are wired to it.

Depth says at which depth an input may be read: header inputs never read a file over 1 MB in whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from forgepack.artifacts.config import read_drafter_config
from forgepack.artifacts.release_json import MODEL_FILES
from forgepack.artifacts.sidecar import current_sidecar
from forgepack.artifacts.trace_features import read_checked_traces
from forgepack.artifacts.tree import content, walk
from forgepack.profile import Profile
from forgepack.verify.checks.fidelity import source_deviations
from forgepack.verify.checks.head_package import run_head, wired_head, wiring
from forgepack.verify.checks.run_package import execute
from forgepack.verify.checks.target_record import NO_ATTESTATION, NO_EVIDENCE, choose_target_record, emitted_head
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs import lineage
from forgepack.verify.inputs.hashing import Digests, hash_files
from forgepack.verify.inputs.input_set import Tree, below, never
from forgepack.verify.inputs.layout import (
    CONFIG_FILE,
    LICENCE_FILE,
    NOTICE_FILE,
    SELECTOR_FILE,
    SOURCE_FILE,
    Layout,
    empty_layout,
    find_layout,
)
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.inputs.readers import read_asset, read_binding, read_object, read_sidecar, text_reader
from forgepack.verify.inputs.reading import Input, Parsed, UnavailableError
from forgepack.verify.inputs.sources import Sources

if TYPE_CHECKING:
    from forgepack.coreai_backend.compare import Comparison

T = TypeVar("T")
NO_NOTICE = "the profile's checkpoint has no notice"
NO_TRACES = "no --traces were given"
NO_DRAFTER = "the drafter was left out by --plain"
NO_BUNDLE = "no bundle is verified"


class OpenPair(Pair):
    """A pair whose inputs are read from its sources."""

    def __init__(
        self, sources: Sources, profile: Profile, depth: Depth, *, seconds: float = 600.0, blocks: int | None = None
    ) -> None:
        super().__init__(sources, profile, depth, seconds=seconds, blocks=blocks)
        self.tree, self.layout = self._open_drafter()
        self._add_package()
        self._add_target()
        self._add_sources()
        self.deviations = Input("deviations", lambda: source_deviations(self), depth=Depth.LINEAGE)
        self._add_release()
        self._add_given()
        self.digests = Input("digests", self._digests, depth=Depth.HASH)
        self._add_lineage()
        self._add_run()

    def _open_drafter(self) -> tuple[Input[Tree], Layout]:
        """List the drafter; raises for a folder that can't be listed or holds no package: nothing to report on."""
        root, stem = self.sources.drafter, self.profile.package
        if self.sources.plain:
            return Input("tree", never, absent=NO_DRAFTER), empty_layout(root, stem)
        entries = walk(root)
        return Input("tree", lambda: entries), find_layout(root, entries, stem)

    def _add_package(self) -> None:
        layout, root = self.layout, None if self.sources.plain else self.sources.drafter
        self.config = self._part("config", root, CONFIG_FILE, read_drafter_config)
        self.selector = self._safetensors("selector", root, SELECTOR_FILE, absent=NO_DRAFTER)
        self.origin = self._part("origin", root, SOURCE_FILE, read_object)
        self.written_sidecar = self._part("written_sidecar", root, layout.sidecar.name, read_sidecar)
        self.sidecar = Input(
            "sidecar", lambda: current_sidecar(dict(self.written_sidecar.value), where=str(layout.sidecar))
        )
        self.binding = Input("binding", lambda: read_binding(self.sidecar.value, layout.sidecar))
        self.asset = self._part("asset", root, layout.asset.name, read_asset)
        self.licence = self._part("licence", root, LICENCE_FILE, text_reader("licence"))
        if root is not None and NOTICE_FILE not in self.profile.hub.files:
            self.notice = Input("notice", never, absent=NO_NOTICE)
        else:
            self.notice = self._part("notice", root, NOTICE_FILE, text_reader("notice"))

    def _part(self, name: str, root: Path | None, file: str, read: Callable[[Path], T | Parsed[T]]) -> Input[T]:
        """Declare an input of the drafter folder, which may be left out."""
        return self._file(name, below(root, file), read, absent=NO_DRAFTER)

    def _add_release(self) -> None:
        """Declare the inputs that only a bundle has."""
        self.release = Input("release", never, absent=NO_BUNDLE)
        self.bundle_tree = Input("bundle_tree", never, absent=NO_BUNDLE)
        self.record = Input("record", never, absent=NO_BUNDLE)
        self.sums = Input("sums", never, absent=NO_BUNDLE)
        self.upstream_record = Input("upstream_record", never, absent=NO_BUNDLE)

    def _add_given(self) -> None:
        """Declare attestations and evidence, and the record that the rules compare the target with."""
        given = self.sources.extra_files
        self.attestations = Input(
            "attestations",
            lambda: Parsed(
                value=tuple(file.attestation for file in given.attestations if file.attestation is not None),
                faults=tuple(fault for file in given.attestations for fault in file.faults),
            ),
            absent=None if given.attestations else NO_ATTESTATION,
        )
        self.evidence = Input("evidence", lambda: given.evidence, absent=None if given.evidence else NO_EVIDENCE)
        self.target_record = Input("target_record", lambda: choose_target_record(self))
        self.emitted_head = Input("emitted_head", lambda: emitted_head(self))

    def _digests(self) -> Parsed[Digests]:
        return hash_files(planned_files(self))

    def _add_lineage(self) -> None:
        geometry, recipe, deep = self.profile.geometry, self.profile.recipe, Depth.LINEAGE
        self.program = Input("program", lambda: self.reader.read(self.asset.value, head=True), depth=deep)
        self.expected = Input(
            "expected",
            lambda: lineage.expected_program(self.reader, geometry, recipe),
            depth=deep,
            absent=NO_DRAFTER if self.sources.plain else None,
        )
        self.comparison = Input("comparison", self._compare, depth=deep)
        self.roles = Input(
            "roles",
            lambda: lineage.constants_by_role(self.program.value, self.comparison.value, geometry, recipe),
            depth=deep,
        )
        self.package_head = Input("package_head", lambda: lineage.required_head(self.program.value), depth=deep)
        self.target_programs = Input(
            "target_programs",
            lambda: lineage.read_programs(self.reader, self.packages.value, self.manifest.value.head_file),
            depth=deep,
        )
        self.head_program = Input(
            "head_program", lambda: self.target_program(self.manifest.value.head_file), depth=deep
        )
        self.target_head = Input("target_head", lambda: lineage.required_head(self.head_program.value), depth=deep)
        self.head_wiring = Input("head_wiring", lambda: wiring(self), depth=deep)
        self.wired_head = Input("wired_head", lambda: wired_head(self), depth=deep)
        self.export_digest = Input("export_digest", lambda: self.reader.read_head(self.head.value), depth=deep)

    def _add_run(self) -> None:
        geometry, traces = self.profile.geometry, self.sources.traces
        self.traces = self._file(
            "traces", traces, lambda path: read_checked_traces(path, geometry), absent=NO_TRACES, depth=Depth.RUN
        )
        self.execution = Input("execution", lambda: execute(self), depth=Depth.RUN)
        self.head_run = Input("head_run", lambda: run_head(self), depth=Depth.RUN)

    def _compare(self) -> Comparison:
        """Compare the program with the emitted one; another one that nothing attests is not a fault of its own."""
        comparison = lineage.compare_with_emitted(self.program.value, self.expected.value)
        if not comparison.same and not self.binding.available:
            raise UnavailableError(self.binding)
        return comparison


def planned_files(pair: Pair) -> Iterator[Path]:
    """Yield every file whose bytes some digest can check: whole folders, but named files of model and checkpoint.

    Of build and export these are the files that emission binds (``artifacts.tree.content``).
    """
    sources, target = pair.sources, pair.sources.target
    yield from _files(pair, sources.drafter, pair.tree)
    yield from (
        p
        for p in _files(pair, target.model, pair.model_tree)
        if p.relative_to(target.model).as_posix() in MODEL_FILES
    )
    if target.export is not None:
        yield from _files(pair, target.export, pair.export_tree)
    yield from _files(pair, target.build, pair.build_tree)
    if sources.quant is not None:
        yield from _files(pair, sources.quant, pair.quant_tree)
    if sources.checkpoint is not None:
        taken = {*pair.profile.hub.files, *pair.profile.hub.optional_files}
        root = sources.checkpoint
        found = _files(pair, root, pair.checkpoint_tree)
        yield from (p for p in found if p.relative_to(root).as_posix() in taken)


def _files(pair: Pair, root: Path, tree: Input[Tree]) -> Iterator[Path]:
    """Yield the regular files of a part that count; where links are allowed also those that lead to one."""
    for entry in content(tree.value) if tree.available else ():
        path = root / entry.path
        if entry.kind == "file" or (entry.kind == "link" and pair.sources.allow_links and path.is_file()):
            yield path
