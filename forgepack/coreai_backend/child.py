"""The child that reads and runs assets: ``python -m forgepack.coreai_backend.child``.

Requests: ``head`` (digest of an export's head), ``read`` (program, and the head's digest), ``constants`` (bytes into
files), ``load`` and ``call`` (run an entry point on stored inputs). Never import this module in a parent: reading a
damaged asset can end the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.coreai_backend import bindings
from forgepack.coreai_backend.child_process import Handler, serve
from forgepack.coreai_backend.execution import Runner
from forgepack.coreai_backend.extract import ProgramReader
from forgepack.coreai_backend.head import Head, find_head
from forgepack.coreai_backend.head_content import (
    HeadContent,
    HeadDigest,
    content_of_program,
    content_of_safetensors,
)
from forgepack.coreai_backend.process import error_to_json
from forgepack.coreai_backend.program import program_to_json
from forgepack.errors import ForgepackError


def open_program(path: Path, *, where: str, digests: bool) -> ProgramReader:
    """Load an asset's program and read it; ``where`` is the asset that errors name."""
    raw = bindings.load_bytecode(path)
    return ProgramReader(raw, digests=digests, where=where, longest=path.stat().st_size)


class Heads:
    """Digests of heads: of an export, which is remembered, then of packages, which most often hold the same head."""

    def __init__(self) -> None:
        self._known: tuple[HeadContent, HeadDigest] | None = None

    def head(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the digest of the head in the file lm_head.safetensors of an export."""
        content = content_of_safetensors(read_safetensors(Path(request["file"])))
        digest = content.digest()
        self._known = content, digest
        return {"content": asdict(digest)}

    def read(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the asset's program; with ``head`` also its head, or the error that says why there is none."""
        reader = open_program(Path(request["program"]), where=request["where"], digests=request["digests"])
        reply: dict[str, Any] = {"program": program_to_json(reader.program)}
        if request["head"]:
            try:
                head = find_head(reader.program, request["where"])
                content = content_of_program(reader.program, head, reader.payload, request["where"])
                _read_others(reader, head)
                digest = content.digest() if self._known is None else content.digest_like(*self._known)
                reply["head"] = {"head": asdict(head), "content": asdict(digest)}
            except ForgepackError as err:
                reply["head"] = {"error": error_to_json(err)}
        return reply


def _read_others(reader: ProgramReader, head: Head) -> None:
    """Read the named constants outside of heads that were not read yet: reading checks the length of each."""
    parts = {n for part in head.parts for n in (part.weight, part.lut, *part.factors)}
    for index, constant in enumerate(reader.program.constants):
        if constant.sha256 is None and index not in parts:
            reader.payload(index)


def constants(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the bytes of the constants ``indices`` into ``folder``, one file ``<index>.bin`` each."""
    reader = open_program(Path(request["program"]), where=request["where"], digests=False)
    for index in request["indices"]:
        reader.payload(index).tofile(Path(request["folder"]) / f"{index}.bin")
    return {}


def reading() -> dict[str, Handler]:
    """Return what a child that reads answers, by command."""
    heads = Heads()
    return {"head": heads.head, "read": heads.read, "constants": constants}


if __name__ == "__main__":
    runner = Runner()
    serve({**reading(), "load": runner.load, "call": runner.call})
