"""The child's side of ``process``: set the limits, import Core AI, say ready, answer requests until the end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NoReturn

from forgepack.canonical import dump_compact, parse_object
from forgepack.coreai_backend.availability import require_coreai
from forgepack.coreai_backend.process import MESSAGE, READY, error_to_json
from forgepack.errors import ForgepackError, PlatformError

Handler = Callable[[Mapping[str, Any]], dict[str, Any]]


def serve(handlers: Mapping[str, Handler]) -> NoReturn:
    """Answer each request on stdin with the handler of its ``command``; the end of stdin is the end.

    A ForgepackError is answered, any other ends the process. Everything that is printed to stdout, by this process
    or by C++ code, is sent to stderr instead.
    """
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _confine(parse_object(sys.stdin.buffer.readline(), where="limits"))
    threading.Thread(target=_end_with_parent, args=(sys.stdin.fileno(),), daemon=True).start()
    try:
        _import_coreai()
    except ForgepackError as err:
        _say(answer, dump_compact({"error": error_to_json(err)}) + b"\n")
        os._exit(0)
    _say(answer, READY)
    for line in sys.stdin.buffer:
        request = parse_object(line, where="request", bounds=MESSAGE)
        try:
            reply = handlers[request["command"]](request)
        except ForgepackError as err:
            reply = {"error": error_to_json(err)}
        _say(answer, dump_compact(reply) + b"\n")
    # Core AI's destructors take a while at full size and may crash on a damaged module: all is said already.
    os._exit(0)


def _end_with_parent(stdin: int) -> None:
    """End this process and all that it started once nobody holds the other end of ``stdin``: the parent is dead.

    A parent that is killed can't end its child, which would go on writing where the parent's next run clears up.
    """
    watch = select.poll()
    watch.register(stdin, 0)  # the end of the pipe alone, whatever is left to read in it
    watch.poll()
    os.killpg(0, signal.SIGKILL)


def _say(answer: BinaryIO, data: bytes) -> None:
    answer.write(data)
    answer.flush()


def _import_coreai() -> None:
    require_coreai()
    try:
        import coreai.authoring  # noqa: F401
    except (ImportError, OSError) as err:
        raise PlatformError(
            "Core AI's package can't be imported", found=str(err)[:300], code="coreai-import"
        ) from err


def _confine(limits: Mapping[str, Any]) -> None:
    """Bound memory and file size, forbid core dumps, and move temporary files into the given folder."""
    import resource

    for name, value in (("RLIMIT_CORE", 0), ("RLIMIT_AS", limits["memory"]), ("RLIMIT_FSIZE", limits["file_size"])):
        # A lower hard limit may be in force already, or the platform may not have the limit.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (value, value))
    scratch = limits["scratch"]
    if scratch is not None:
        os.environ["TMPDIR"] = scratch
        tempfile.tempdir = scratch
