"""When to ask the hub again: failures in a row are counted, waited for and reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from forgepack.hub.faults import TransientHubError
from forgepack.hub.report import Effects, Progress, RetryPolicy

T = TypeVar("T")
_FEW = 4  # attempts at a listing: with no network at all the answer should come within seconds


class Patience:
    """Counts failures in a row of one piece of work."""

    def __init__(self, path: str, total: int, *, effects: Effects, policy: RetryPolicy) -> None:
        self._path = path
        self._total = total
        self._effects = effects
        self._policy = policy
        self._failures = 0

    def fail(self, err: TransientHubError, *, brought: int = 0, done: int = 0) -> None:
        """Wait before the next attempt, or raise ``err`` when there were too many.

        Counted anew after an attempt that ``brought`` as many bytes as the policy asks for.
        """
        self._failures = 1 if brought >= self._policy.fresh_after else self._failures + 1
        if self._failures >= self._policy.attempts:
            raise err
        seconds = self._policy.wait(self._failures, err.retry_after)
        left = self._policy.attempts - 1
        note = f"{err.what}; trying again in {seconds:g} s ({self._failures} of {left})"
        self._effects.report(Progress(phase="retry", path=self._path, done=done, total=self._total, note=note))
        self._effects.sleep(seconds)


def ask_again(ask: Callable[[], T], *, effects: Effects, policy: RetryPolicy) -> T:
    """Return what ``ask`` returns, asking up to four times while it fails in a way that may pass."""
    patience = Patience("", 0, effects=effects, policy=replace(policy, attempts=min(_FEW, policy.attempts)))
    while True:
        try:
            return ask()
        except TransientHubError as err:
            patience.fail(err)
