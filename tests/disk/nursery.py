"""A process that forks a child for each run: ``python -m tests.disk.nursery CASE ROOT``, asked on its input.

``run`` forks and answers with the child's number, ``wait`` waits for it and answers with its exit code.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import huggingface_hub  # noqa: F401  (imported once, before the forks)

from tests.disk.cases import CASES, Case


def main() -> int:
    """Answer until the input ends."""
    name, root = sys.argv[1:]
    case = next(kind for kind in CASES if kind.name == name)(Path(root))
    child = 0
    for line in sys.stdin:
        if line == "run\n":
            child = os.fork()
            if child == 0:
                _act(case)
            answer = child
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    return 0


def _act(case: Case) -> None:
    """Run the command and end; nothing of it may reach the nursery's answers."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        case.act()
    except BaseException:  # noqa: BLE001  (whatever it is, the nursery must not go on in the child)
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
