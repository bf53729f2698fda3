"""The sidecar of a drafter package: the keys that the runtime reads, and ``forgepack``, which binds the pair.

Parsing here is lenient on purpose: a package of other scripts has no ``forgepack`` object, and a verifier wants to
show everything that can be shown. The schema is checked by ``faults``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.quant_report import traces_from_version_1
from forgepack.canonical import parse_object, sha256_hex
from forgepack.document import DocumentKind, grown
from forgepack.errors import CorruptError
from forgepack.json_values import lookup
from forgepack.limits import SIDECAR_BYTES
from forgepack.schema_check import SchemaFault, schema_faults


def _from_version_1(binding: dict[str, Any]) -> dict[str, Any]:
    """Return a binding of version 1 in today's form: what it could not bind is null, and reported as not bound."""
    bound = {**binding, "target": with_model_files(binding["target"])}
    quantization = binding.get("quantization")
    calibration = quantization.get("calibration") if isinstance(quantization, dict) else None
    if not isinstance(quantization, dict) or not isinstance(calibration, dict):
        return bound
    calibration = {**calibration, **traces_from_version_1(calibration, "traces", "held_out")}
    return {**bound, "quantization": {**quantization, "calibration": calibration}}


def with_model_files(target: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a target as it was before files of model/ were bound by it, with null for them."""
    return grown(target, model_files=None)


KIND = DocumentKind(
    name="forgepack.sidecar",
    title="binding of the package",
    remake="emit the package again",
    code="binding",
    version=2,
    upgrade=_from_version_1,
)
SCHEMA_NAME = "sidecar"
MAX_BYTES = SIDECAR_BYTES
RUNTIME_KEYS = (
    "W",
    "T",
    "R",
    "RP",
    "resid_scale",
    "lut_f",
    "feat_scale",
    "export",
    "target_export",
    "head_export",
    "mask_scale",
    "mb",
    "entries",
)
# What a Core ML package of the same stem writes under the same name.
_CORE_ML_KEYS = frozenset({"quant", "policy", "size_gb"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantRecord:
    """What the sidecar says of one constant of the package."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A sidecar as read; ``raw`` is all of it, its binding in today's form, ``sha256`` that of the file."""

    path: Path
    raw: Mapping[str, Any]
    sha256: str

    @property
    def bound(self) -> Mapping[str, Any] | None:
        """The object ``forgepack``, None when the package was made by other scripts."""
        value = self.raw.get("forgepack")
        return value if isinstance(value, dict) else None

    @property
    def is_core_ml(self) -> bool:
        """Whether this is the sidecar of a Core ML package, never a substitute."""
        return bool(_CORE_ML_KEYS & set(self.raw)) and not {"W", "T", "R", "entries"} & set(self.raw)

    def value(self, dotted: str) -> Any:
        """Return the value at a dotted path, None where there is none."""
        return lookup(self.raw, dotted)

    def constants(self) -> dict[str, ConstantRecord]:
        """Return the recorded constants by role; CorruptError for a record that is not one."""
        records = self.value("forgepack.package.constants")
        if not isinstance(records, dict):
            raise self._fault("forgepack.package.constants", "an object", repr(records)[:80])
        out = {}
        for role, record in records.items():
            try:
                out[role] = ConstantRecord(**{**record, "shape": tuple(record["shape"])})
            except (KeyError, TypeError) as err:
                where = f"forgepack.package.constants.{role}"
                raise self._fault(where, "dtype, shape, sha256, formula", repr(record)[:80]) from err
        return out

    def faults(self) -> tuple[SchemaFault, ...]:
        """Return every difference from the sidecar's schema."""
        return schema_faults(dict(self.raw), SCHEMA_NAME)

    def _fault(self, path: str, expected: str, found: str) -> CorruptError:
        return CorruptError(
            "the sidecar is not valid",
            where=f"{self.path}: {path}",
            expected=expected,
            found=found,
            hint="emit the package again",
            code="sidecar",
        )


def read_written(path: Path) -> tuple[dict[str, Any], str]:
    """Return a sidecar's JSON object as it is written, and the file's SHA-256: what every command reads it by.

    At most 16 MB: at full size it has about 0.3 MB, most of it one record for each constant and file.
    """
    data = read_bounded(path, MAX_BYTES)
    return parse_object(data, where=str(path)), sha256_hex(data)


def read_sidecar(path: Path) -> Sidecar:
    """Read a sidecar's JSON strictly; what it says is checked by others."""
    raw, sha256 = read_written(path)
    return Sidecar(path=path, raw=current_sidecar(raw, where=str(path)), sha256=sha256)


def current_sidecar(raw: dict[str, Any], *, where: str) -> dict[str, Any]:
    """Return a sidecar whose binding is in today's form if it was in the one before; any other is left as it is.

    A binding of another kind or version is shown and checked (rule CTR007), not refused here.
    """
    binding = raw.get("forgepack")
    if not isinstance(binding, dict) or not KIND.is_older(binding):
        return raw
    return {**raw, "forgepack": KIND.current(binding, where=f"{where}: forgepack")}


def sidecar_path(package: Path) -> Path:
    """Return where the sidecar of an ``.aimodel`` package is: beside it, under the same stem."""
    return package.with_suffix(".json")
