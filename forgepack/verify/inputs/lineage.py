"""What depth lineage reads: programs in a child process, the trace compared with the emitter's, heads by content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.aimodel import AssetFiles
from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.errors import ForgepackError, PlatformError
from forgepack.verify.inputs.readers import read_asset as read_folder
from forgepack.verify.inputs.reading import Parsed
from forgepack.verify.inputs.sources import guard_links

if TYPE_CHECKING:
    from pathlib import Path

    from forgepack.coreai_backend.compare import Comparison
    from forgepack.coreai_backend.head_content import HeadContent
    from forgepack.coreai_backend.program import AssetProgram, Constant
    from forgepack.coreai_backend.reader import AssetReader, AssetReading, FoundHead
    from forgepack.geometry import Geometry
    from forgepack.profile import Recipe

CHILD = "forgepack.verify.child"
_AUTHORING = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The package's constants by role, read off the trace by position; ``unmet`` roles were not found in it."""

    constants: Mapping[str, Constant]
    unmet: tuple[str, ...]


def asset_reader(assets: Callable[[], Iterable[AssetFiles]], seconds: float) -> AssetReader:
    """Return the reader of all that a verification asks of programs; ``assets`` are those that it may read."""
    from forgepack.coreai_backend.reader import AssetReader, limits_for_constants

    return AssetReader(lambda: limits_for_constants(*assets()), seconds=seconds, module=CHILD)


def required_head(reading: AssetReading) -> FoundHead:
    """Return the head that a program was found to have; raise the error that says why it has none."""
    return reading.require_head()


def read_packages(build: Path, names: tuple[str, ...], *, links: bool) -> Parsed[Mapping[str, AssetFiles]]:
    """Read the plain files of packages of the target's build; each fault is kept, the others are still read."""
    found: dict[str, AssetFiles] = {}
    faults: list[ForgepackError] = []
    for name in names:
        try:
            guard_links(build, build / name, allowed=links)
            found[name] = read_folder(build / name)
        except ForgepackError as err:
            faults.append(err)
    return Parsed(value=found, faults=tuple(faults))


def read_programs(
    reader: AssetReader, packages: Mapping[str, AssetFiles], head: str
) -> Parsed[Mapping[str, AssetReading]]:
    """Read the entry points of the target's packages, of ``head`` also its head; each fault is kept."""
    found: dict[str, AssetReading] = {}
    faults: list[ForgepackError] = []
    for name, files in sorted(packages.items()):
        try:
            found[name] = reader.read(files, head=name == head, digests=False)
        except PlatformError:  # no one asset's fault
            raise
        except ForgepackError as err:
            faults.append(err)
    return Parsed(value=found, faults=tuple(faults))


def expected_program(reader: AssetReader, geometry: Geometry, recipe: Recipe) -> AssetProgram:
    """Return the program that this tool emits for a geometry and recipe, its constants named by role."""
    from forgepack.coreai_backend.program import program_from_json
    from forgepack.emit.author import expected_request

    request = expected_request(geometry, recipe)
    return program_from_json(reader.ask(request, subject="the expected program", seconds=_AUTHORING)["program"])


def compare_with_emitted(reading: AssetReading, expected: AssetProgram) -> Comparison:
    """Compare an asset's program with the one that this tool emits."""
    from forgepack.coreai_backend.compare import compare_programs

    return compare_programs(expected, reading.program)


def constants_by_role(reading: AssetReading, comparison: Comparison, geometry: Geometry, recipe: Recipe) -> Roles:
    """Return the found constant of each role that the emitter's table names; inline numbers are not among them."""
    from forgepack.emit.table import constant_table

    named = [role for role, spec in constant_table(geometry, recipe).items() if not spec.inline]
    constants = {role: reading.program.constants[place] for role, place in comparison.roles.items() if role in named}
    return Roles(constants=constants, unmet=tuple(role for role in named if role not in constants))


def constant_values(
    reading: AssetReading, comparison: Comparison, role: str, *, reader: AssetReader
) -> npt.NDArray[np.float16] | None:
    """Return the float16 values of a role's constant in its shape, or None when the program has none there."""
    from forgepack.coreai_backend.reader import open_constants

    place = comparison.roles.get(role)
    if place is None:
        return None
    constant = reading.program.constants[place]
    if constant.data is not None:
        return np.array(constant.values())
    with open_constants(reading, [place], reader=reader) as payloads:
        return np.array(payloads[place].view(np.float16).reshape(constant.shape))


@contextmanager
def opened_heads(
    left: AssetReading | SafetensorsFile, right: AssetReading | SafetensorsFile, reader: AssetReader
) -> Iterator[tuple[HeadContent, HeadContent]]:
    """Give the contents of two heads, each of a package or of an export, to be compared row by row."""
    with opened_head(left, reader) as one, opened_head(right, reader) as other:
        yield one, other


@contextmanager
def opened_head(source: AssetReading | SafetensorsFile, reader: AssetReader) -> Iterator[HeadContent]:
    """Give the content of one head, of a package or of an export."""
    from forgepack.coreai_backend.head_content import content_of_safetensors
    from forgepack.coreai_backend.reader import open_head

    if isinstance(source, SafetensorsFile):
        yield content_of_safetensors(source)
    else:
        with open_head(source, reader=reader) as content:
            yield content
