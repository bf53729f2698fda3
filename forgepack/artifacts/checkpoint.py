"""The drafter checkpoint: config.json and model.safetensors, a closed set of BF16 tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.config import DrafterConfig, read_drafter_config
from forgepack.artifacts.lock import CheckpointLock
from forgepack.artifacts.locked import require_locked
from forgepack.artifacts.safetensors_file import SafetensorsFile, read_safetensors
from forgepack.errors import CorruptError, ForgepackError, MissingError, NumericsError, UsageError
from forgepack.finite import find_nonfinite
from forgepack.geometry import Geometry, Shape, checkpoint_tensors
from forgepack.profile import Profile

MODEL_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
MAX_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint folder whose lock, config and header have been checked good; weights stay on disk."""

    root: Path
    config: DrafterConfig
    weights: SafetensorsFile
    lock: CheckpointLock

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        """Return one tensor as float32; NumericsError names the first non-finite value."""
        return np.asarray(self.stored(name), np.float32)

    def stored(self, name: str) -> npt.NDArray[Any]:
        """Return a view of one tensor as it is stored, in BF16; NumericsError names the first non-finite value."""
        values = self.weights.array(name)
        bad = find_nonfinite(values)
        if bad is not None:
            count, first = bad
            raise NumericsError(
                f"{count} values of a weight are not finite",
                where=f"{self.weights.path}: {name}",
                found=f"{values.flat[first]} at flat index {first}",
                hint="fetch the checkpoint again and compare its digest",
                code="nonfinite",
            )
        return values


def read_checkpoint_files(root: Path, geometry: Geometry) -> tuple[DrafterConfig, SafetensorsFile]:
    """Read config and header of a checkpoint folder and demand that both are those of ``geometry``."""
    config = read_drafter_config(root / CONFIG_FILE)
    for fault in config.faults(geometry):
        raise CorruptError(
            "config.json is not the profile's",
            where=f"{config.path}: {fault.path}",
            expected=fault.expected,
            found=fault.found,
            hint="choose the profile of this checkpoint, or fetch the pinned one",
            code=f"config-{fault.code}",
        )
    weights = read_safetensors(root / MODEL_FILE)
    faults = list(tensor_faults(weights, {n: ("BF16", s) for n, s in checkpoint_tensors(geometry).items()}))
    if faults:
        raise faults[0] if len(faults) == 1 else _all_in_one(weights.path, faults)
    return config, weights


def read_checkpoint(root: Path, profile: Profile, *, hashed: bool = False) -> Checkpoint:
    """Read a checkpoint folder that is locked, the profile's, and well formed; UsageError where there is no folder.

    With ``hashed`` every byte is compared with the lock, as a command that builds must do once.
    """
    if not root.is_dir():
        raise UsageError("no such checkpoint folder", where=str(root), hint="forgepack fetch --out downloads one")
    lock = require_locked(root, profile, hashed=hashed)
    config, weights = read_checkpoint_files(root, profile.geometry)
    return Checkpoint(root=root, config=config, weights=weights, lock=lock)


def _all_in_one(path: Path, faults: list[ForgepackError]) -> ForgepackError:
    """Return one error that names every tensor that is not as it should be, up to ``MAX_NAMED``."""
    told = [f"{err.what}: {(err.where or '').removeprefix(f'{path}: ')}" for err in faults[:MAX_NAMED]]
    more = [f"and {len(faults) - MAX_NAMED} more"] if len(faults) > MAX_NAMED else []
    what = f"{len(faults)} tensors are not the profile's"
    return type(faults[0])(what, where=str(path), found="; ".join([*told, *more]), code=faults[0].code)


def tensor_faults(file: SafetensorsFile, expected: dict[str, tuple[str, Shape]]) -> Iterator[ForgepackError]:
    """Yield every difference of ``file`` from a closed set of tensors, ``name -> (dtype, shape)``."""
    for name, (dtype, shape) in expected.items():
        info = file.tensors.get(name)
        where = f"{file.path}: {name}"
        if info is None:
            yield MissingError("a tensor is missing", where=where, code="tensor-missing")
        elif info.shape != shape:
            yield CorruptError(
                "a tensor has another shape",
                where=where,
                expected=str(list(shape)),
                found=str(list(info.shape)),
                code="tensor-shape",
            )
        elif info.dtype != dtype:
            yield CorruptError(
                "a tensor has another dtype", where=where, expected=dtype, found=info.dtype, code="tensor-dtype"
            )
    for name in sorted(set(file.tensors) - set(expected)):
        yield CorruptError("a tensor is not expected", where=f"{file.path}: {name!r}", code="tensor-unexpected")
