"""One fetch in a process of its own, to be killed or limited: ``python -m tests.hub.child URL OUT``.

Prints the error's code, or ``done``; its exit code is the error's.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import time
from pathlib import Path

from forgepack.errors import ForgepackError
from forgepack.hub import Effects, FetchRequest, HubSettings, fetch_checkpoint
from tests.hub.bench import PROFILE


def die_at_rename(count: int) -> None:
    """Kill this process by SIGKILL as it is about to rename for the ``count``-th time."""
    rename = Path.rename
    left = count

    def renaming(self: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, target)

    Path.rename = renaming  # type: ignore[method-assign, assignment]


def main() -> int:
    """Fetch and report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--die-at-rename", type=int, default=0)
    parser.add_argument("--limit", type=int, default=0)
    args = parser.parse_args()
    die_at_rename(args.die_at_rename)
    if args.limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (args.limit, args.limit))
    settings = HubSettings(endpoint=args.url, token=False, timeout=20.0)
    effects = Effects(sleep=lambda _: None, clock=time.monotonic)
    try:
        fetch_checkpoint(FetchRequest(profile=PROFILE, out=args.out), settings=settings, effects=effects)
    except ForgepackError as err:
        sys.stdout.write(err.code)
        return err.exit_code
    sys.stdout.write("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
