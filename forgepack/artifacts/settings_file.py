"""Files that people write, TOML or JSON under a shipped schema: every fault is a usage error with its place."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.toml_file import parse_toml
from forgepack.canonical import parse_object, sha256_hex
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError, LimitError, MissingError, UsageError
from forgepack.limits import SETTINGS_BYTES

_MARKS = ((b"\xef\xbb\xbf", "UTF-8"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
MAX_BYTES = SETTINGS_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """A file as parsed, dates as ISO texts; ``sha256`` is that of its bytes."""

    path: Path
    sha256: str
    raw: Mapping[str, Any]


def read_settings(path: Path, what: str, *, hint: str | None = None) -> SettingsFile:
    """Parse a file, TOML where its name ends in .toml, else JSON.

    ``what`` names its kind, ``hint`` says where one comes from. Raises UsageError when there is none or it can't be
    parsed, UnreadableError when it can't be read.
    """
    try:
        data = read_bounded(path, MAX_BYTES)
        refuse_mark(data, what, where=str(path))
        raw = parse_toml(data, where=str(path)) if path.suffix == ".toml" else parse_object(data, where=str(path))
    except MissingError as err:
        raise UsageError(f"no such {what}", where=str(path), hint=hint) from err
    except (CorruptError, LimitError) as err:
        what = f"the {what} can't be parsed"
        raise UsageError(what, where=str(path), expected=err.expected, found=err.found) from err
    return SettingsFile(path=path, sha256=sha256_hex(data), raw=_dates_as_text(raw))


def refuse_mark(data: bytes, what: str, *, where: str) -> None:
    """Raise UsageError for a file that an editor saved with a byte order mark: no parser names it as the fault."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    if encoding is not None:
        raise UsageError(
            f"the {what} starts with a byte order mark",
            where=where,
            expected="UTF-8 without one",
            found=f"that of {encoding}",
            hint="save the file again as UTF-8, in editors also called UTF-8 without BOM",
        )


def demand_form(file: SettingsFile, kind: DocumentKind, *, stated: bool = True) -> dict[str, Any]:
    """Return what a file holds in its kind's current form; UsageError for the first fault.

    A file that people write may leave its version out where it need not be ``stated``. An unknown key is answered
    with the closest known one.
    """
    raw = dict(file.raw) if stated else {kind.key: kind.statement, **file.raw}
    try:
        return kind.judged(raw, where=str(file.path))
    except CorruptError as err:
        raise UsageError(err.what, where=err.where, expected=err.expected, found=err.found, hint=err.hint) from err


def _dates_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _dates_as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_dates_as_text(item) for item in value]
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value
