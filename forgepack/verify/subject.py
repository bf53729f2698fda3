"""The pair under verification: every input of the rules, read lazily and once.

Attributes are inputs; ``Pair.inputs`` lists them all. Depth says at which depth an input may be read: header inputs
never read a file over 1 MB in whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from forgepack.artifacts.aimodel import AssetFiles
from forgepack.artifacts.attestation import Attestation, Evidence
from forgepack.artifacts.config import DrafterConfig, read_drafter_config
from forgepack.artifacts.release_json import Release
from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.artifacts.sidecar import current_sidecar
from forgepack.artifacts.trace_features import read_checked_traces
from forgepack.artifacts.traces import TraceSet
from forgepack.artifacts.tree import walk
from forgepack.profile import Profile
from forgepack.verify import head_package, lineage
from forgepack.verify.bond import NO_ATTESTATION, NO_EVIDENCE, Bond, choose_bond, emitted_head
from forgepack.verify.fidelity import source_deviations
from forgepack.verify.hashing import Digests, hash_files, planned_files
from forgepack.verify.input_set import Tree, below, never
from forgepack.verify.inputs import Input, Parsed, UnavailableError
from forgepack.verify.layout import (
    CONFIG_FILE,
    LICENCE_FILE,
    NOTICE_FILE,
    SELECTOR_FILE,
    SOURCE_FILE,
    Layout,
    empty_layout,
    find_layout,
)
from forgepack.verify.readers import (
    read_asset,
    read_binding,
    read_object,
    read_sidecar,
    text_reader,
)
from forgepack.verify.report import Depth
from forgepack.verify.source_inputs import SourceInputs
from forgepack.verify.sources import Sources
from forgepack.verify.target_inputs import TargetInputs

if TYPE_CHECKING:
    from forgepack.coreai_backend.compare import Comparison
    from forgepack.coreai_backend.head_content import HeadDigest
    from forgepack.coreai_backend.program import AssetProgram
    from forgepack.coreai_backend.reader import AssetReader, AssetReading, FoundHead
    from forgepack.coreai_backend.wiring import Wiring
    from forgepack.quantize.fidelity import Deviation
    from forgepack.verify.execution import Execution
    from forgepack.verify.head_package import HeadRun

T = TypeVar("T")
NO_NOTICE = "the profile's checkpoint has no notice"
NO_TRACES = "no --traces were given"
NO_DRAFTER = "the drafter was left out by --plain"
NO_BUNDLE = "no bundle is verified"


class Pair(TargetInputs, SourceInputs):
    """A drafter package, its target, and where given the quantized drafter and the checkpoint it came from."""

    def __init__(
        self, sources: Sources, profile: Profile, depth: Depth, *, seconds: float = 600.0, blocks: int | None = None
    ) -> None:
        super().__init__(sources, profile, depth)
        self.seconds = seconds
        self.blocks = blocks
        self.tree, self.layout = self._open_drafter()
        self._add_package()
        self._add_target()
        self._add_sources()
        self.deviations: Input[tuple[Deviation, ...]] = Input(
            "deviations", lambda: source_deviations(self), depth=Depth.LINEAGE
        )
        self._add_release()
        self._add_given()
        self.digests: Input[Digests] = Input("digests", self._digests, depth=Depth.HASH)
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
        self.config: Input[DrafterConfig] = self._part("config", root, CONFIG_FILE, read_drafter_config)
        self.selector = self._safetensors("selector", root, SELECTOR_FILE, absent=NO_DRAFTER)
        self.origin: Input[Mapping[str, Any]] = self._part("origin", root, SOURCE_FILE, read_object)
        self.written_sidecar: Input[Mapping[str, Any]] = self._part(
            "written_sidecar", root, layout.sidecar.name, read_sidecar
        )
        self.sidecar: Input[Mapping[str, Any]] = Input(
            "sidecar", lambda: current_sidecar(dict(self.written_sidecar.value), where=str(layout.sidecar))
        )
        self.binding: Input[Mapping[str, Any]] = Input(
            "binding", lambda: read_binding(self.sidecar.value, layout.sidecar)
        )
        self.asset: Input[AssetFiles] = self._part("asset", root, layout.asset.name, read_asset)
        self.licence: Input[bytes] = self._part("licence", root, LICENCE_FILE, text_reader("licence"))
        if root is not None and NOTICE_FILE not in self.profile.hub.files:
            self.notice: Input[bytes] = Input("notice", never, absent=NO_NOTICE)
        else:
            self.notice = self._part("notice", root, NOTICE_FILE, text_reader("notice"))

    def _part(self, name: str, root: Path | None, file: str, read: Callable[[Path], T | Parsed[T]]) -> Input[T]:
        """Declare an input of the drafter folder, which may be left out."""
        return self._file(name, below(root, file), read, absent=NO_DRAFTER)

    def _add_release(self) -> None:
        """Declare the inputs that only a bundle has."""
        self.release: Input[Release] = Input("release", never, absent=NO_BUNDLE)
        self.bundle_tree: Input[Tree] = Input("bundle_tree", never, absent=NO_BUNDLE)
        self.record: Input[Mapping[str, Any]] = Input("record", never, absent=NO_BUNDLE)
        self.sums: Input[Mapping[str, str]] = Input("sums", never, absent=NO_BUNDLE)
        self.upstream_record: Input[Mapping[str, Any]] = Input("upstream_record", never, absent=NO_BUNDLE)

    def _add_given(self) -> None:
        """Declare attestations and evidence, and what the rules hold the target against."""
        given = self.sources.given
        self.attestations: Input[tuple[Attestation, ...]] = Input(
            "attestations",
            lambda: Parsed(
                value=tuple(file.attestation for file in given.attestations if file.attestation is not None),
                faults=tuple(fault for file in given.attestations for fault in file.faults),
            ),
            absent=None if given.attestations else NO_ATTESTATION,
        )
        self.evidence: Input[tuple[Evidence, ...]] = Input(
            "evidence", lambda: given.evidence, absent=None if given.evidence else NO_EVIDENCE
        )
        self.bond: Input[Bond] = Input("bond", lambda: choose_bond(self))
        self.emitted_head: Input[SafetensorsFile] = Input("emitted_head", lambda: emitted_head(self))

    def _digests(self) -> Parsed[Digests]:
        return hash_files(planned_files(self))

    def _add_lineage(self) -> None:
        geometry, recipe, deep = self.profile.geometry, self.profile.recipe, Depth.LINEAGE
        self.program: Input[AssetReading] = Input(
            "program", lambda: self.reader.read(self.asset.value, head=True), depth=deep
        )
        self.expected: Input[AssetProgram] = Input(
            "expected",
            lambda: lineage.expected_program(self.reader, geometry, recipe),
            depth=deep,
            absent=NO_DRAFTER if self.sources.plain else None,
        )
        self.comparison: Input[Comparison] = Input("comparison", self._compare, depth=deep)
        self.roles: Input[lineage.Roles] = Input(
            "roles",
            lambda: lineage.constants_by_role(self.program.value, self.comparison.value, geometry, recipe),
            depth=deep,
        )
        self.package_head: Input[FoundHead] = Input(
            "package_head", lambda: lineage.required_head(self.program.value), depth=deep
        )
        self.target_programs: Input[Mapping[str, AssetReading]] = Input(
            "target_programs",
            lambda: lineage.read_programs(self.reader, self.packages.value, self.manifest.value.head_file),
            depth=deep,
        )
        self.head_program: Input[AssetReading] = Input(
            "head_program", lambda: self.target_program(self.manifest.value.head_file), depth=deep
        )
        self.target_head: Input[FoundHead] = Input(
            "target_head", lambda: lineage.required_head(self.head_program.value), depth=deep
        )
        self.head_wiring: Input[Wiring] = Input("head_wiring", lambda: head_package.wiring(self), depth=deep)
        self.wired_head: Input[FoundHead] = Input("wired_head", lambda: head_package.wired_head(self), depth=deep)
        self.export_digest: Input[HeadDigest] = Input(
            "export_digest", lambda: self.reader.read_head(self.head.value), depth=deep
        )

    def _add_run(self) -> None:
        geometry, traces = self.profile.geometry, self.sources.traces
        self.traces: Input[TraceSet] = self._file(
            "traces", traces, lambda path: read_checked_traces(path, geometry), absent=NO_TRACES, depth=Depth.RUN
        )
        self.execution: Input[Execution] = Input("execution", lambda: lineage.run_package(self), depth=Depth.RUN)
        self.head_run: Input[HeadRun] = Input("head_run", lambda: head_package.run_head(self), depth=Depth.RUN)

    def _compare(self) -> Comparison:
        """Compare the program with the emitted one; another one that nothing attests is no fault of its own."""
        comparison = lineage.compare_with_emitted(self.program.value, self.expected.value)
        if not comparison.same and not self.binding.available:
            raise UnavailableError(self.binding)
        return comparison

    def target_program(self, name: str) -> AssetReading:
        """Return the program of one of the target's packages; UnavailableError when it could not be read."""
        reading = self.target_programs.value.get(name)
        if reading is None:
            lost = self.target_programs if name in self.packages.value else self.packages
            raise UnavailableError(lost)
        return reading

    @cached_property
    def reader(self) -> AssetReader:
        """Reads all that is asked of programs; made when something is: header and hash do without its imports."""
        return lineage.asset_reader(self._assets, self.seconds)

    def _assets(self) -> Iterator[AssetFiles]:
        """Yield the files of every asset that a verification may read."""
        if self.asset.available:
            yield self.asset.value
        yield from self.packages.value.values() if self.packages.available else ()

    @contextmanager
    def read_ahead(self) -> Iterator[None]:
        """Read what takes long at this depth meanwhile, a thread a lane; on leaving all of it has been read.

        One child reads the expected program, while nothing foreign was loaded, then the export's head, then what is
        held against both: its large constants, when the many objects of reading the tokenizer are gone.
        """
        first, then = (self.expected, self.export_digest), (self.program, self.target_programs)
        lanes: list[list[Input[Any]]] = [[*first, self.tokenizer, *then], [self.tokenizer], [self.digests]]
        reader = self.reader if self.depth >= Depth.LINEAGE else nullcontext()
        with reader, ThreadPoolExecutor(len(lanes)) as pool:
            reading = [pool.submit(self._settle, lane) for lane in lanes]
            yield
            for lane in reading:
                lane.result()

    def _settle(self, inputs: Sequence[Input[Any]]) -> None:
        for one in inputs:
            if one.depth <= self.depth:
                one.settle()
