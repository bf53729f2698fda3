"""Quantization from checked inputs to a QUANT folder: resumable by matrix, published whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.quant import QUANT_FILE
from forgepack.artifacts.quant_report import REPORT_FILE
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.artifacts.state import require_unchanged
from forgepack.artifacts.traces import TraceSequence, TraceSet
from forgepack.canonical import dump_canonical
from forgepack.disk.failures import writing
from forgepack.disk.files import write_new
from forgepack.disk.folders import fresh_folder, locked_work, publish, remove_work
from forgepack.drafter.batch import BlockBatch, SequenceBlocks, embed, make_batch
from forgepack.drafter.context import fuse
from forgepack.drafter.forward import Forward
from forgepack.drafter.weights import CheckpointWeights
from forgepack.geometry import int8_matrices, lut_matrices, quant_tensors
from forgepack.parallel import Pool, open_pool
from forgepack.profile import Profile
from forgepack.quantize.calibrate import Calibrator
from forgepack.quantize.examine import examine, input_json
from forgepack.quantize.judge import Outputs, finish_report
from forgepack.quantize.matrix import MatrixQuantizer
from forgepack.quantize.plan import chosen_rows, disk_bytes
from forgepack.quantize.progress import Counter, Progress
from forgepack.quantize.recipe import Options, calibration_scale, file_metadata, recipe_json
from forgepack.quantize.report import make_report, run_key
from forgepack.quantize.result import Parts, open_parts
from forgepack.quantize.sources import Sources, Split, require_finite, source_places, source_states
from forgepack.quantize.steps import make_steps

Rows = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeResult:
    """The published folder and the content of its report."""

    root: Path
    report: dict[str, Any]


def quantize(
    sources: Sources,
    out: Path,
    *,
    profile: Profile,
    options: Options,
    progress: Callable[[Progress], None] | None = None,
) -> QuantizeResult:
    """Quantize a checkpoint into the folder ``out``.

    A run that was killed goes on from its last finished matrix when inputs and recipe are the same. Raises
    UsageError for an existing output without ``options.force``, IdentityError for inputs that do not belong
    together, NumericsError for values that can't be computed with, OutputError when writing fails.
    """
    recipe = recipe_json(options, profile)
    needed = disk_bytes(profile)
    with locked_work(out, force=options.force, inputs=source_places(sources), needed=needed) as work:
        states = source_states(sources)
        found = examine(sources, profile)
        split, key = found.split, run_key(profile, recipe, input_json(sources, found))
        require_finite(sources, split, profile)
        parts = open_parts(work, key, profile.geometry)
        names = [*lut_matrices(profile.geometry), *int8_matrices(profile.geometry)]
        steps = make_steps(profile.geometry, chosen_rows(sources, split, profile), gptq=options.method == "gptq")
        counter = Counter(steps=steps, finished=[n for n in names if parts.load(n) is not None], tell=progress)
        with open_pool(options.threads) as pool:
            job = _Job(sources=sources, split=split, profile=profile, options=options, pool=pool, parts=parts)
            outputs = job.run(counter.note)
        require_unchanged(states)
        staged = _assemble(work, parts, names, file_metadata(options, profile, sources.traces.digest))
        matrices = {name: finish_report(name, parts.require(name)[1], outputs) for name in names}
        report = _report(staged, matrices, key, options)
        publish(staged, out)
        remove_work(work)
    return QuantizeResult(root=out, report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    sources: Sources
    split: Split
    profile: Profile
    options: Options
    pool: Pool
    parts: Parts

    def run(self, note: Callable[[str], None]) -> Outputs:
        """Quantize every matrix that no part holds yet; return all matrices' squared outputs."""
        g = self.profile.geometry
        weights = CheckpointWeights(checkpoint=self.sources.checkpoint, geometry=g)
        quantizer = MatrixQuantizer(
            load=weights.tensor, recipe=self.profile.recipe, use_gptq=self.options.method == "gptq", pool=self.pool
        )
        chosen, held_out = self.split.calibration, self.split.held_out
        blocks = sum(int(self.sources.traces.sequences[n].positions.size) for n in chosen)
        calibrator = Calibrator(
            quantizer=quantizer,
            parts=self.parts,
            block_rows=blocks * g.block,
            sequences=len(chosen),
            fed=tuple(s.fed_rows(g.window) for s in self._chosen),
            note=note,
        )
        calibrator.observe_features(
            lambda: self._fed(self.sources.traces, chosen), lambda: self._fed(self._held_out, held_out)
        )
        forward = Forward(
            weights=weights,
            mask_scale=calibration_scale(self.options, self.profile),
            pool=self.pool,
            observer=calibrator,
        )
        fused = fuse(
            weights, self._all_features(), self.pool, note=partial(calibrator.observe_context_product, "fc.weight")
        )
        batch = self._batch(fused)
        x = embed(batch, self.sources.target.embedding, mask_token=g.mask_token, block=g.block)
        forward.hidden(x, batch)
        return calibrator.outputs

    @property
    def _held_out(self) -> TraceSet:
        return self.sources.held_out or self.sources.traces

    @property
    def _chosen(self) -> list[TraceSequence]:
        """The sequences in use, calibration first."""
        chosen = [self.sources.traces.sequences[n] for n in self.split.calibration]
        return chosen + [self._held_out.sequences[n] for n in self.split.held_out]

    def _fed(self, traces: TraceSet, chosen: tuple[int, ...]) -> Iterator[Rows]:
        for n in chosen:
            yield traces.features(n)[traces.sequences[n].fed_rows(self.profile.geometry.window)]

    def _features(self, traces: TraceSet, chosen: tuple[int, ...]) -> Iterator[Rows]:
        for n in chosen:
            yield traces.features(n)[: traces.sequences[n].context_rows]

    def _all_features(self) -> Iterator[Rows]:
        yield from self._features(self.sources.traces, self.split.calibration)
        yield from self._features(self._held_out, self.split.held_out)

    def _batch(self, contexts: list[npt.NDArray[np.float32]]) -> BlockBatch:
        """Join the recorded blocks of all chosen sequences, calibration first."""
        return make_batch(
            [
                SequenceBlocks(context=c, positions=s.positions, anchors=s.tokens[s.positions].astype(np.int64))
                for s, c in zip(self._chosen, contexts, strict=True)
            ]
        )


def _assemble(work: Path, parts: Parts, names: list[str], metadata: dict[str, str]) -> Path:
    """Copy all parts into the final file, in a folder that is published whole."""
    staged = fresh_folder(work / "out")
    with writing(work), SafetensorsWriter(staged / QUANT_FILE, quant_tensors(parts.geometry), metadata) as writer:
        for name in names:
            tensors, _ = parts.require(name)
            for tensor in tensors.tensors:
                writer.write(tensor, tensors.array(tensor))
    return staged


def _report(staged: Path, matrices: dict[str, Any], key: dict[str, Any], options: Options) -> dict[str, Any]:
    output = hash_file(staged / QUANT_FILE)
    report = make_report(key, matrices, method=options.method, output=output)
    write_new(staged / REPORT_FILE, dump_canonical(report))
    return report
