"""What a sidecar of version 1 bound without having read it: reported as a note, where everything else is an error.

Version 1 of the emitter took in any bytes under the name of an export's layer. Such a file is still the one that the
pair was bound to, as long as the record of version 1 lists it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from forgepack.artifacts.export import ExportFiles
from forgepack.artifacts.sidecar import KIND
from forgepack.errors import ForgepackError
from forgepack.json_values import lookup
from forgepack.verify.inputs.reading import Input, Parsed


def is_of_version_1(sidecar: Input[Mapping[str, Any]]) -> bool:
    """Say whether the binding of a sidecar, as it is written, has the form before today's."""
    binding = sidecar.value.get("forgepack") if sidecar.available else None
    return isinstance(binding, Mapping) and KIND.is_older(binding)


def leave_to_version_1(
    sidecar: Input[Mapping[str, Any]], files: ExportFiles, faults: Iterable[ForgepackError]
) -> Parsed[ExportFiles]:
    """Split the faults of an export: those of files that version 1 bound as they are stay with the value."""
    faults = tuple(faults)
    if not is_of_version_1(sidecar):
        return Parsed(value=files, faults=faults)
    listed = lookup(sidecar.value, "forgepack.target.files")
    excused = tuple(fault for fault in faults if _is_bound(files, fault, listed))
    rest = tuple(fault for fault in faults if fault not in excused)
    return Parsed(value=replace(files, bound_unread=excused), faults=rest)


def _is_bound(files: ExportFiles, fault: ForgepackError, listed: object) -> bool:
    """Whether a fault is of a file that the record lists with its size, or of layers that it never listed."""
    if not isinstance(listed, Mapping):
        return False
    path = (fault.where or "").removeprefix(str(files.root)).partition(": ")[0].strip("/")
    if not path:
        return True  # layers that are missing: CTR023 misses those that the record lists, each by its name
    record, place = listed.get(f"export/{path}"), files.root / path
    return isinstance(record, Mapping) and place.is_file() and record.get("bytes") == place.stat().st_size
