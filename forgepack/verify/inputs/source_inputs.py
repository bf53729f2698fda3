"""The inputs of where a drafter came from: its checkpoint and its quantization, each where it is named."""

from __future__ import annotations

from collections.abc import Mapping

from forgepack.artifacts.config import DrafterConfig, read_drafter_config
from forgepack.artifacts.lock import LOCK_NAME, CheckpointLock, read_lock
from forgepack.artifacts.quant import QUANT_FILE
from forgepack.artifacts.quant_report import REPORT_FILE, QuantReport, read_quant_report
from forgepack.verify.inputs.input_set import InputSet, Tree, below, never
from forgepack.verify.inputs.layout import CONFIG_FILE
from forgepack.verify.inputs.readers import read_texts
from forgepack.verify.inputs.reading import Input

NO_QUANT = "no --quant was given"
NO_CHECKPOINT = "no --checkpoint was given"


class SourceInputs(InputSet):
    """Checkpoint and quantization of a set of inputs."""

    def _add_sources(self) -> None:
        checkpoint, quant = self.sources.checkpoint, self.sources.quant
        self.checkpoint_tree: Input[Tree] = self._tree("checkpoint_tree", checkpoint, absent=NO_CHECKPOINT)
        self.quant_tree: Input[Tree] = self._tree("quant_tree", quant, absent=NO_QUANT)
        self.checkpoint = self._safetensors("checkpoint", checkpoint, "model.safetensors", absent=NO_CHECKPOINT)
        self.checkpoint_config: Input[DrafterConfig] = self._file(
            "checkpoint_config", below(checkpoint, CONFIG_FILE), read_drafter_config, absent=NO_CHECKPOINT
        )
        self.checkpoint_texts: Input[Mapping[str, bytes]] = Input(
            "checkpoint_texts",
            never if checkpoint is None else lambda: read_texts(checkpoint),
            absent=NO_CHECKPOINT if checkpoint is None else None,
        )
        self.lock: Input[CheckpointLock] = self._file(
            "lock", below(checkpoint, LOCK_NAME), lambda path: read_lock(path.parent), absent=NO_CHECKPOINT
        )
        self.quant = self._safetensors("quant", quant, QUANT_FILE, absent=NO_QUANT)
        self.quant_report: Input[QuantReport] = self._file(
            "quant_report", below(quant, REPORT_FILE), read_quant_report, absent=NO_QUANT
        )
