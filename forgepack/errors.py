"""One error tree: every class owns one exit code, every error says what, where, expected, found and what next.

Finding a fault in verified content is not an error but a finding (``forgepack.verify``); errors mean that
a command could not do its work.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_OK = 0
EXIT_REFUSED = 1


class ForgepackError(Exception):
    """Base of all expected failures.

    ``what`` is one sentence; ``where`` names the file, JSON path or tensor; ``expected`` and ``found`` are
    the two sides of a failed comparison; ``hint`` is the next command or action. ``code`` is a short stable
    word that rules and tests can match on.
    """

    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
        code: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.found = found
        self.hint = hint
        self.code = code

    def lines(self) -> list[str]:
        """Return the message as unescaped lines, the sentence first, then each field that is set."""
        fields = {"where": self.where, "expected": self.expected, "found": self.found, "next": self.hint}
        return [self.what, *(f"  {name}: {text}" for name, text in fields.items() if text is not None)]

    def __str__(self) -> str:
        return "\n".join(self.lines())


class UsageError(ForgepackError):
    """The command line, configuration, a named path, rule, profile or revision is wrong (exit 2)."""

    exit_code = 2


class NothingToVerifyError(ForgepackError):
    """The folder is there but holds no package (exit 3)."""

    exit_code = 3


class InputError(ForgepackError):
    """An input can't be used by a command that builds (exit 4)."""

    exit_code = 4


class UnreadableError(InputError):
    """An input exists but can't be read: permission or I/O. Never the same as absent."""


class MissingError(InputError):
    """A file that a format requires is absent from a folder that is there."""


class LimitError(InputError):
    """An input is larger, deeper or more numerous than the documented limit."""


class CorruptError(InputError):
    """An input's bytes are not what its format demands. ``code`` says which kind of damage."""


class IdentityError(InputError):
    """An input is well formed but not the one that is pinned (donor, lock mismatch, wrong digest)."""


class NumericsError(InputError):
    """Values can't be computed with: non-finite weights, features or results."""


class OutputError(ForgepackError):
    """The output could not be written (exit 5)."""

    exit_code = 5


class HubError(ForgepackError):
    """The hub or the network failed (exit 6)."""

    exit_code = 6


class PlatformError(ForgepackError):
    """Core AI or Core ML is missing on this platform, or its toolchain failed on good input (exit 7)."""

    exit_code = 7


class InternalError(ForgepackError):
    """A fault of this tool (exit 70)."""

    exit_code = 70
