"""A child of the tests that misbehaves on request, run as ``python -m tests.coreai_backend.misbehaving_child``."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forgepack.coreai_backend.child_process import serve
from forgepack.errors import NumericsError


def misbehave(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do as the request says."""
    kind = request["kind"]
    if kind == "hang":
        time.sleep(600)
    elif kind == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif kind == "exit":
        sys.stderr.buffer.write(b"last \xff words\n")
        sys.stderr.flush()
        os._exit(3)
    elif kind == "memory":
        bytearray(1 << 40)
    elif kind == "file":
        Path(request["path"]).write_bytes(bytes(4 << 20))
    elif kind == "nonsense":
        os.write(int(request.get("fd", 3)), b"{not json}\n")
        time.sleep(600)
    elif kind == "ours":
        raise NumericsError("a number is wrong", where="here", expected="1", found="2", code="number")
    elif kind == "noise":
        os.write(1, b"printed to stdout\n" * 3)
    return {"done": kind}


if __name__ == "__main__":
    serve({"do": misbehave})
