"""The examples of ``forgepack.api``: one story in one folder, each function's example after those before it."""

from __future__ import annotations

import doctest
import json
import shutil
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack import api
from forgepack.miniature.data import PROFILE
from forgepack.miniature.server import Request
from forgepack.profile import load_profile
from forgepack.resources import data_folder
from tests.hub.loopback import LoopbackHub

COMMIT = "c0ffee" * 6 + "cafe"
REPO = "forgepack/mini"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """For each function how its example differs, "" for not at all, and what the hub was asked."""

    told: dict[str, str]
    asked: tuple[Request, ...]


def play_examples(folder: Path) -> Story:
    """Run every example in ``folder``, which is empty.

    What the page promises is set up first: the miniature's files in mini/, and a hub on loopback, to which the
    release is uploaded as soon as there is one.
    """
    shutil.copytree(data_folder("mini"), folder / "mini")
    told: dict[str, str] = {}
    pin = load_profile(PROFILE).hub
    with LoopbackHub.serve({pin.repo: {pin.commit: folder / "mini/checkpoint"}}) as hub, chdir(folder):
        known = {"api": api, "json": json, "shutil": shutil, "Path": Path, "HUB": hub.url, "COMMIT": COMMIT}
        for name in api.FUNCTIONS:
            if name == "verify_published":
                hub.add(REPO, COMMIT, folder / "release")
            told[name] = _played(getattr(api, name), known)
    return Story(told=told, asked=tuple(hub.log))


def example_of(function: Callable[..., Any]) -> doctest.DocTest:
    """Return a function's example."""
    parser = doctest.DocTestParser()
    return parser.get_doctest(function.__doc__ or "", {}, function.__name__, None, None)


def _played(function: Callable[..., Any], known: dict[str, Any]) -> str:
    test = example_of(function)
    lines: list[str] = []
    test.globs = known
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=lines.append, clear_globs=False)
    return "".join(lines)
