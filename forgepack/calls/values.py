"""What the public functions share: paths, progress, depths, the hub's settings, the options that reports list."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from forgepack.artifacts.target_parts import TargetParts
    from forgepack.disk.places import Inputs
    from forgepack.hub import Effects, HubSettings
    from forgepack.release.verification.run import Acceptance
    from forgepack.verify.findings.report import Chosen, Depth

StrPath: TypeAlias = str | os.PathLike[str]
TargetName: TypeAlias = "str | os.PathLike[str] | TargetParts"
DepthName: TypeAlias = Literal["header", "hash", "lineage", "run"]

ENDPOINT = "https://huggingface.co"
MAX_WAIT = 3600.0
# What a report does not list: a listener decides nothing, and a token is a secret.
_UNTOLD = ("progress", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a long call reports: the step, how much of it is done, and the file, matrix or rule at work.

    ``done`` and ``total`` count bytes, in ``quantize`` operations; ``total`` is 0 where it is not known. A listener
    may be called from several threads, one call at a time.
    """

    step: str
    done: int = 0
    total: int = 0
    name: str = ""


Listener: TypeAlias = Callable[[Progress], None]


def teller(progress: Listener | None, step: str) -> Callable[[str], None]:
    """Return a function that reports to a listener what a step is at."""

    def tell(name: str) -> None:
        if progress is not None:
            progress(Progress(step=step, name=name))

    return tell


def counter(progress: Listener | None) -> Callable[[str, int, int, str], None]:
    """Return a function that reports a step, what is done of it, of how much, and the name at work."""

    def tell(step: str, done: int, total: int, name: str = "") -> None:
        if progress is not None:
            progress(Progress(step=step, done=done, total=total, name=name))

    return tell


def optional(path: StrPath | None) -> Path | None:
    """Return a path that may be left out."""
    return None if path is None else Path(path)


def parts_of(target: TargetName) -> TargetParts:
    """Return a target as its parts: a path is its release root."""
    from forgepack.artifacts.target_parts import TargetParts

    return target if isinstance(target, TargetParts) else TargetParts(root=Path(target))


def depth_of(name: DepthName, *, least: DepthName = "header") -> Depth:
    """Return a depth by its name; UsageError for another word, or one that is less than is demanded."""
    from forgepack.errors import UsageError
    from forgepack.verify.findings.report import Depth

    allowed = [depth.label for depth in Depth if depth >= Depth[least.upper()]]
    if name not in allowed:
        raise UsageError("the depth is not one of those", expected=" or ".join(allowed), found=str(name))
    return Depth[name.upper()]


def check_out(out: Path, *, force: bool, inputs: Inputs | None = None) -> None:
    """Refuse a folder that may not be written, as every command does: edited files are never replaced."""
    from forgepack.disk.places import check_folder

    check_folder(out, force=force, inputs=inputs or {}, exact=True)


def settings_of(endpoint: str | None, token: str | None, timeout: float) -> HubSettings:
    """Return how to reach a hub: the public one unless named, without a token unless one is given."""
    from forgepack.errors import UsageError
    from forgepack.hub import HubSettings

    if not 0 < timeout <= MAX_WAIT:
        expected = f"over 0, at most {MAX_WAIT:.0f} seconds"
        raise UsageError("the longest wait for the hub is out of range", expected=expected, found=str(timeout))
    return HubSettings(endpoint=endpoint or ENDPOINT, token=token or False, timeout=timeout)


def effects_of(progress: Listener | None) -> Effects:
    """Return the clock and the sleep of this machine, and a listener for what a download does."""
    from forgepack import hub

    tell = counter(progress)

    def report(now: hub.Progress) -> None:
        name = f"{now.path}: {now.note}".removeprefix(": ") if now.phase == "retry" else now.path
        tell(now.phase, now.done, now.total, name)

    return hub.Effects(sleep=time.sleep, clock=time.monotonic, report=report)


def chosen(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[Chosen, ...]:
    """Return the keywords of a call that have not their defaults, as the report of a verification lists options."""
    parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.kind is one.KEYWORD_ONLY and one.name not in _UNTOLD]
    told: list[tuple[str, Any]] = []
    for one in named:
        value = given[one.name]
        if one.name == "accept":
            told += accepted(value)
        elif value != one.default:
            told.append((one.name, value))
    return options_of(told)


def options_of(told: Iterable[tuple[str, Any]]) -> tuple[Chosen, ...]:
    """Return names and values as options that a caller chose, sorted by name."""
    from forgepack.verify.findings.report import Chosen

    found = [Chosen(name=name.replace("_", "-"), value=_text(value), source="caller") for name, value in told]
    return tuple(sorted(found, key=lambda one: one.name))


def accepted(acceptance: Acceptance | None) -> Iterator[tuple[str, Any]]:
    """Yield the fields of what is accepted that have not their defaults."""
    if acceptance is not None:
        default = type(acceptance)()
        for one in fields(acceptance):
            if (value := getattr(acceptance, one.name)) != getattr(default, one.name):
                yield one.name, value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    if hasattr(value, "root") and hasattr(value, "export"):
        parts = [value.root, value.model, value.build, value.export]
        return ", ".join(Path(part).as_posix() for part in parts if part is not None)
    return Path(value).as_posix() if isinstance(value, os.PathLike) else str(value)
