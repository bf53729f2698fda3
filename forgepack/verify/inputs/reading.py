"""Inputs of a verification, each read at most once by whichever thread asks first.

An input remembers its value or why it has none.

A reader's error is data here: it becomes one finding of the rule that owns its code, and rules that need the input
are not evaluated because of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from forgepack.errors import ForgepackError, InternalError, LimitError, PlatformError, UnreadableError
from forgepack.verify.findings.report import Depth

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed(Generic[T]):
    """A value together with faults that do not keep it from being used; ``value`` None means it can't be."""

    value: T | None
    faults: tuple[ForgepackError, ...] = ()


def aborts_verification(err: ForgepackError) -> bool:
    """Say whether an error keeps a verification from finishing instead of being a fault of the content."""
    return isinstance(err, UnreadableError | LimitError | PlatformError)


class UnavailableError(InternalError):
    """An input that a rule or another input asks for has no value; never leaves the engine."""

    def __init__(self, source: Input[Any]) -> None:
        super().__init__("an input is not available", where=source.name)
        self.source = source


class Input(Generic[T]):
    """One lazily read input. ``absent`` is the reason when the input is legally not there."""

    def __init__(
        self, name: str, read: Callable[[], T | Parsed[T]], *, depth: Depth = Depth.HEADER, absent: str | None = None
    ) -> None:
        self.name = name
        self.depth = depth
        self._reader = read
        self._absent = absent
        # An input may ask for others while it is read, never for itself: a thread waits for a reader, not in a ring.
        self._reading = threading.Lock()
        self._done = False
        self._value: T | None = None
        self._faults: tuple[ForgepackError, ...] = ()
        self._blocker: Input[Any] | None = None

    @property
    def settled(self) -> bool:
        """Whether the input was read, or found to have no value."""
        return self._done

    @property
    def value(self) -> T:
        """The value; UnavailableError when there is none."""
        self.settle()
        if self._value is None:
            raise UnavailableError(self)
        return self._value

    @property
    def available(self) -> bool:
        """Whether there is a value to use."""
        self.settle()
        return self._value is not None

    @property
    def absent(self) -> str | None:
        """Why the input is legally not there, or None when it should be."""
        self.settle()
        return self._absent if self._blocker is None else self._blocker.absent

    @property
    def faults(self) -> tuple[ForgepackError, ...]:
        """Every error of this input's own reading."""
        self.settle()
        return self._faults

    @property
    def roots(self) -> tuple[ForgepackError, ...]:
        """The errors that explain why there is no value: its own, or those of the input it needs."""
        self.settle()
        return self._faults if self._blocker is None else self._blocker.roots

    @property
    def findings(self) -> tuple[ForgepackError, ...]:
        """Errors of this input that speak of its content."""
        return tuple(err for err in self.faults if not aborts_verification(err))

    @property
    def stoppers(self) -> tuple[ForgepackError, ...]:
        """Errors of this input that are not a finding but keep the verification from finishing."""
        return tuple(err for err in self.faults if aborts_verification(err))

    def settle(self) -> None:
        """Read the input now, if it was not read yet; see the other properties for the outcome."""
        if self._done:
            return
        with self._reading:
            if not self._done:
                self._read()
                self._done = True

    def _read(self) -> None:
        if self._absent is not None:
            return
        try:
            result = self._reader()
        except UnavailableError as err:
            self._blocker = err.source
        except ForgepackError as err:
            self._faults = (err,)
        else:
            if isinstance(result, Parsed):
                self._value, self._faults = result.value, result.faults
            else:
                self._value = result
