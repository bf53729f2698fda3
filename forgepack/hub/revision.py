"""Only a full commit names a revision: branches and tags move, short hashes may become ambiguous."""

from __future__ import annotations

import re
from collections.abc import Callable

from forgepack.artifacts.lock import is_commit
from forgepack.errors import UsageError
from forgepack.profile import Profile

LookUp = Callable[[str], str | None]
_LONGEST_NAME = 250


def check_revision(
    revision: str | None,
    profile: Profile,
    look_up: LookUp | None = None,
    *,
    where: str = "--revision",
    option: str = "--revision ",
) -> str:
    """Return ``revision``, or the profile's commit for None, if it is a full lower-case commit; else UsageError.

    ``look_up`` is asked once for the commit that the name points to now, to put it in the hint; None asks nobody.
    What it finds never changes the outcome. ``where`` and ``option`` are how the command line says it.
    """
    where = where if revision is not None else f"{profile.name}: hub.commit"
    revision = profile.hub.commit if revision is None else revision
    return require_commit(revision, where=where, hint=lambda: _hint(revision, look_up, option))


def require_commit(revision: str, *, where: str, hint: str | Callable[[], str]) -> str:
    """Return ``revision`` if it is a full lower-case commit; else UsageError says what it is: every reader of one."""
    if is_commit(revision):
        return revision
    raise UsageError(
        f"a revision must be a full commit, not {_kind(revision)}",
        where=where,
        expected="40 lower-case hexadecimal digits",
        found=revision[:_LONGEST_NAME] or "nothing",
        hint=hint if isinstance(hint, str) else hint(),
        code="revision",
    )


def _kind(revision: str) -> str:
    if not revision.strip():
        return "an empty one"
    if revision != revision.strip() and is_commit(revision.strip().lower()):
        return "one with space around it"
    if is_commit(revision.lower()):
        return "one in upper case"
    if re.fullmatch(r"[0-9a-fA-F]{64}", revision):
        return "a SHA-256: that is of a file's bytes"
    if re.fullmatch(r"[0-9a-fA-F]{41,}", revision):
        return f"{len(revision)} hexadecimal digits"
    if re.fullmatch(r"[0-9a-fA-F]{4,39}", revision):
        return "a short hash"
    return "a branch or tag"


def _hint(revision: str, look_up: LookUp | None, option: str) -> str:
    if is_commit(revision.strip().lower()):
        return f"{option}{revision.strip().lower()}"
    commit = None
    digits = re.fullmatch(r"[0-9a-fA-F]{41,}", revision) is not None  # nothing that a hub could name
    if not digits and look_up is not None and revision.isprintable() and 0 < len(revision) <= _LONGEST_NAME:
        commit = look_up(revision)
    if commit is None:
        if option != "--revision ":
            return f"give the full commit: {option}COMMIT"
        return "leave --revision out to take the profile's commit, or give the full one"
    return f"it points to {commit} now; if that is the one you mean: {option}{commit}"
