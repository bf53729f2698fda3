"""The pair under verification, as its rules see it: every input by name, read lazily and once.

Attributes are inputs; ``Pair.inputs`` lists them all. ``forgepack.verify.open_pair`` says how each is read, so what
derives one input from others takes a Pair, and Pair knows none of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from forgepack.artifacts.aimodel import AssetFiles
from forgepack.artifacts.attestation import Attestation, Evidence
from forgepack.artifacts.config import DrafterConfig
from forgepack.artifacts.release_json import Release
from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.artifacts.traces import TraceSet
from forgepack.profile import Profile
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs import lineage
from forgepack.verify.inputs.hashing import Digests
from forgepack.verify.inputs.input_set import Tree
from forgepack.verify.inputs.layout import Layout
from forgepack.verify.inputs.reading import Input, UnavailableError
from forgepack.verify.inputs.source_inputs import SourceInputs
from forgepack.verify.inputs.sources import Sources
from forgepack.verify.inputs.target_inputs import TargetInputs

if TYPE_CHECKING:
    from forgepack.coreai_backend.compare import Comparison
    from forgepack.coreai_backend.head_content import HeadDigest
    from forgepack.coreai_backend.program import AssetProgram
    from forgepack.coreai_backend.reader import AssetReader, AssetReading, FoundHead
    from forgepack.coreai_backend.wiring import Wiring
    from forgepack.quantize.fidelity import Deviation
    from forgepack.verify.inputs.execution import Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """The record of the target that holds, where it is stated, and the attestation that states it, if one does."""

    target: Any
    place: str
    attestation: Attestation | None = None


class Pair(TargetInputs, SourceInputs):
    """A drafter package, its target, and where given the quantized drafter and the checkpoint it came from.

    ``seconds`` is the time allowed for each reading or run of an asset; ``blocks`` how many blocks depth run takes.
    """

    tree: Input[Tree]
    layout: Layout
    # the package
    config: Input[DrafterConfig]
    selector: Input[SafetensorsFile]
    origin: Input[Mapping[str, Any]]
    sidecar: Input[Mapping[str, Any]]
    binding: Input[Mapping[str, Any]]
    asset: Input[AssetFiles]
    licence: Input[bytes]
    notice: Input[bytes]
    deviations: Input[tuple[Deviation, ...]]
    # only a bundle has them
    release: Input[Release]
    bundle_tree: Input[Tree]
    record: Input[Mapping[str, Any]]
    sums: Input[Mapping[str, str]]
    upstream_record: Input[Mapping[str, Any]]
    # attestations and evidence, and what the rules compare the target with
    attestations: Input[tuple[Attestation, ...]]
    evidence: Input[tuple[Evidence, ...]]
    target_record: Input[TargetRecord]
    emitted_head: Input[SafetensorsFile]
    digests: Input[Digests]
    # depth lineage
    program: Input[AssetReading]
    expected: Input[AssetProgram]
    comparison: Input[Comparison]
    roles: Input[lineage.Roles]
    package_head: Input[FoundHead]
    target_programs: Input[Mapping[str, AssetReading]]
    head_program: Input[AssetReading]
    target_head: Input[FoundHead]
    head_wiring: Input[Wiring]
    wired_head: Input[FoundHead]
    export_digest: Input[HeadDigest]
    # depth run; ``head_run`` is how far a head's logits are from the reference, as a share of its largest value
    traces: Input[TraceSet]
    execution: Input[Execution]
    head_run: Input[float]

    def __init__(
        self, sources: Sources, profile: Profile, depth: Depth, *, seconds: float = 600.0, blocks: int | None = None
    ) -> None:
        super().__init__(sources, profile, depth)
        self.seconds = seconds
        self.blocks = blocks

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
        compared with both: its large constants, when the many objects of reading the tokenizer are gone.
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
