"""Versions of the JSON documents that this tool writes: today's form is read, and the one before it.

A document states itself as ``"schema": "name/version"``, reports of a verification by the number ``schema_version``
alone. A reader knows version N alone; a document of N-1 passes
through ``upgrade`` first. A newer or an older one is refused with the release or the command that helps. Then the
shipped schema checks the form, so a reader checks only what no schema can say: how one field fits another.

To change a kind: raise its ``version``, write ``upgrade`` from the form before, replace the upgrade that stands
there, and keep a document of the old form under fixtures/compat. Identities stay those of the document as it was
written: a digest is never taken of an upgraded form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from forgepack import __version__
from forgepack.errors import CorruptError
from forgepack.schema_check import SchemaFault, schema_faults

_STATED = re.compile(r"([a-z0-9._-]{1,64})/([1-9][0-9]{0,5})")
_LIMIT = 10**6
_RELEASE = re.compile(r"[0-9A-Za-z.+!-]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind:
    """One kind of document: its name, version N and the way from N-1.

    ``title`` names it in errors, ``remake`` is the command that writes it anew, ``code`` that of its reader's
    CorruptError; ``numbered`` documents state a number alone. ``upgrade`` turns the JSON object of version N-1 into
    that of N, the statement of its version aside; there is none while N is 1. It may raise KeyError, TypeError or
    ValueError for an object that is not of N-1.

    ``form`` names the shipped schema of version N. ``unstated`` are keys that N-1 does not have and whose value the
    upgrade can't know: null there is right in an upgraded document, and in no other.
    """

    name: str
    title: str
    remake: str
    code: str = ""
    version: int = 1
    numbered: bool = False
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    form: str = ""
    unstated: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.version > 1) != (self.upgrade is not None):
            raise ValueError(f"{self.name}: version 1 has no upgrade, every other one needs it")

    @property
    def schema(self) -> str:
        """What documents of this version state under ``schema``."""
        return f"{self.name}/{self.version}"

    @property
    def key(self) -> str:
        """Where a document states its version."""
        return "schema_version" if self.numbered else "schema"

    @property
    def statement(self) -> str | int:
        """What documents of this version state there."""
        return self.version if self.numbered else self.schema

    def is_older(self, raw: Mapping[str, Any]) -> bool:
        """Say whether a document is of the version before this one."""
        return 0 < self._version(raw) == self.version - 1

    def current(self, raw: Mapping[str, Any], *, where: str) -> dict[str, Any]:
        """Return the document in the form of this version; CorruptError for another kind or version."""
        error = self.refusal(raw, where=where)
        if error is not None:
            raise error
        if not self.is_older(raw) or self.upgrade is None:
            return dict(raw)
        try:
            return {**self.upgrade(dict(raw)), self.key: self.statement}
        except (KeyError, TypeError, ValueError, AttributeError) as err:
            raise self._error(
                f"the {self.title} is not valid in its own version",
                where,
                expected=f"the form of {self.name}/{self.version - 1}",
                found=f"{type(err).__name__}: {err}"[:80],
                hint=self.remake,
            ) from err

    def judged(self, raw: Mapping[str, Any], *, where: str) -> dict[str, Any]:
        """Return the document in the form of this version; CorruptError for another kind, version or form."""
        current = self.current(raw, where=where)
        for fault in self.faults(current, older=self.is_older(raw)):
            raise self.error(fault, where=where)
        return current

    def faults(self, current: Mapping[str, Any], *, older: bool = False) -> tuple[SchemaFault, ...]:
        """Return what the schema finds in a document of this version, or in an ``older`` one that was upgraded."""
        found = schema_faults(dict(current), self.form)
        return tuple(fault for fault in found if not (older and self._is_unstated(fault)))

    def _is_unstated(self, fault: SchemaFault) -> bool:
        null = fault.kind == "value" and fault.value is None
        return null and fault.path.rpartition(".")[2] in self.unstated

    def error(self, fault: SchemaFault, *, where: str) -> CorruptError:
        """Return the error of one fault that the schema found."""
        return CorruptError(
            f"the {self.title} is not valid",
            where=f"{where}: {fault.field}".removesuffix(": "),
            expected=fault.expected,
            found=fault.found,
            hint=fault.hint or self.remake,
            code=self.code,
        )

    def refusal(self, raw: Mapping[str, Any], *, where: str) -> CorruptError | None:
        """Return why a document can't be read for its kind or version, None when it can."""
        version = self._version(raw)
        if not version:
            what, found = f"this is not a {self.title} of forgepack", repr(raw.get(self.key))[:80]
            return self._error(what, where, expected=self.schema, found=found, hint=self.remake)
        if self.version - 1 <= version <= self.version:
            return None
        writer = _writer(raw)
        found = f"{self.name}/{version}" + (f", written by forgepack {writer}" if writer else "")
        if version > self.version:
            told = writer is not None and writer != __version__
            needed = f"forgepack {writer}" if told else f"a forgepack newer than {__version__}"
            what = f"the {self.title} is of a newer version than forgepack {__version__} reads"
            hint = f"install {needed}; or, with this one: {self.remake}"
        else:
            what = f"the {self.title} is of an older version than forgepack {__version__} reads"
            hint = self.remake
        return self._error(what, where, expected=self._readable(), found=found, hint=hint)

    def _version(self, raw: Mapping[str, Any]) -> int:
        """Return the version that a document states; 0 when it states none, or that of another kind."""
        stated = raw.get(self.key)
        if self.numbered:
            return stated if type(stated) is int and 0 < stated < _LIMIT else 0
        found = _STATED.fullmatch(stated) if isinstance(stated, str) else None
        return int(found[2]) if found is not None and found[1] == self.name else 0

    def _readable(self) -> str:
        return self.schema if self.version == 1 else f"{self.schema}, or version {self.version - 1} of it"

    def _error(self, what: str, where: str, *, expected: str, found: str, hint: str) -> CorruptError:
        return CorruptError(
            what, where=f"{where}: {self.key}", expected=expected, found=found, hint=hint, code=self.code
        )


def grown(node: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Return an object of the version before with fields that today's has beside it.

    ValueError for one that states such a field already: it is of today's form, under a version that is held to less.
    """
    early = sorted(set(node) & set(fields))
    if early:
        raise ValueError(f"a field that this version does not have: {', '.join(early)}")
    return {**node, **fields}


def _writer(raw: Mapping[str, Any]) -> str | None:
    """Return the release that a document says it was written by."""
    tool = raw.get("tool")
    version = tool.get("version") if isinstance(tool, Mapping) else raw.get("version")
    return version if isinstance(version, str) and _RELEASE.fullmatch(version) else None
