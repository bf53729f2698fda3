"""A deny list: what was withdrawn, by digest, beside what the profile itself lists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.settings_file import demand_form, read_settings
from forgepack.document import DocumentKind

KIND = DocumentKind(
    name="forgepack.deny",
    title="deny list",
    remake="run `forgepack schema deny` for the format",
    code="deny",
    form="deny",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DenyList:
    """Digest -> reason; ``sha256`` is that of the file."""

    path: Path
    sha256: str
    reasons: dict[str, str]


def read_deny_list(path: Path) -> DenyList:
    """Read a deny list; UsageError for a file that is not there or not valid, UnreadableError where reading fails."""
    file = read_settings(path, KIND.title, hint=KIND.remake)
    raw = demand_form(file, KIND, stated=False)
    reasons = {entry["sha256"]: entry["reason"] for entry in raw["deny"]}
    return DenyList(path=path, sha256=file.sha256, reasons=reasons)
