"""The demo's stage: inputs, the folders it writes, and the steps that more than one stage takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.quant_report import Method
from forgepack.artifacts.target import locate_target
from forgepack.artifacts.target_parts import TargetParts
from forgepack.emit.package import EmitResult
from forgepack.miniature.data import Miniature
from forgepack.profile import Profile
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import QuantizeResult, quantize
from forgepack.quantize.sources import SourcePaths, open_sources
from forgepack.verify.emission import InputPaths, emit_paths
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair

# Blocks of the held-out traces that the demo runs on the CPU: five of each sequence keep it to a minute in all.
BLOCKS_RUN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """What one verification is given."""

    drafter: Path
    target: Path
    quant: Path
    checkpoint: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A work folder and what is built in it from the miniature under its profile."""

    profile: Profile
    miniature: Miniature
    work: Path
    threads: int = 2

    @property
    def checkpoint(self) -> Path:
        """The fetched checkpoint."""
        return self.work / "checkpoint"

    @property
    def quant(self) -> Path:
        """The GPTQ quantization."""
        return self.work / "quant"

    @property
    def rounded(self) -> Path:
        """The same drafter by plain rounding (RTN)."""
        return self.work / "quant_rtn"

    @property
    def drafter(self) -> Path:
        """The emitted package."""
        return self.work / "drafter"

    @property
    def pairing(self) -> Pairing:
        """The good pair."""
        return Pairing(
            drafter=self.drafter, target=self.miniature.target, quant=self.quant, checkpoint=self.checkpoint
        )

    def quantize(self, out: Path, *, calibration: Path, held_out: Path, method: Method = "gptq") -> QuantizeResult:
        """Quantize the fetched checkpoint on given traces."""
        paths = SourcePaths(
            checkpoint=self.checkpoint,
            target=TargetParts(root=self.miniature.target),
            traces=calibration,
            held_out=held_out,
        )
        sources = open_sources(paths, self.profile)
        return quantize(sources, out, profile=self.profile, options=Options(method=method, threads=self.threads))

    def emit(self, out: Path, *, quant: Path | None = None, target: Path | None = None) -> EmitResult:
        """Emit a package from a quantization for a target, by default the good ones."""
        root = target or self.miniature.target
        paths = InputPaths(
            quant=quant or self.quant, checkpoint=self.checkpoint, target=locate_target(root), root=root
        )
        return emit_paths(paths, out, profile=self.profile)

    def verify(self, pairing: Pairing, depth: Depth = Depth.LINEAGE) -> Report:
        """Verify a pairing under the miniature's profile; at depth run, on the held-out traces."""
        return verify(self.pair(pairing, depth))

    def pair(self, pairing: Pairing, depth: Depth) -> Pair:
        """Return the pairing as the verifier sees it."""
        sources = find_sources(
            pairing.drafter,
            pairing.target,
            quant=pairing.quant,
            checkpoint=pairing.checkpoint,
            traces=self.miniature.held_out if depth is Depth.RUN else None,
        )
        return OpenPair(sources, self.profile, depth, blocks=BLOCKS_RUN)
