"""The tiny pair for tests of the command line."""

from __future__ import annotations

from tests.verify.conftest import base, foreign, other, pair

__all__ = ["base", "foreign", "other", "pair"]
