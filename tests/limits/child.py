"""Read one case and print how it ended and what it cost: ``python -m tests.limits.child FILE READER``."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from forgepack.artifacts.deny import read_deny_list
from forgepack.artifacts.files import read_bounded
from forgepack.artifacts.mil_text import parse_mil
from forgepack.artifacts.npz import read_npz
from forgepack.artifacts.release_json import read_release
from forgepack.artifacts.release_record import parse_sums
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.target import read_manifest
from forgepack.artifacts.tokenizer import read_tokenizer
from forgepack.artifacts.toml_file import parse_toml
from forgepack.canonical import parse_json
from forgepack.errors import ForgepackError
from forgepack.limits import JSON_BYTES, MIL_BYTES, SUMS_BYTES, TOML_BYTES


def _header(path: Path) -> None:
    try:
        read_safetensors(path)
    except ForgepackError as err:
        if err.code not in ("header", "tensor-count"):  # a value that is not a list of tensors: its JSON was read
            raise


def _release(path: Path) -> None:
    faults = read_release(path)[1]
    if faults:
        raise faults[0]


READERS: dict[str, Callable[[Path], object]] = {
    "json": lambda path: parse_json(read_bounded(path, JSON_BYTES), where="x"),
    "safetensors": read_safetensors,
    "header": _header,
    "npz": read_npz,
    "toml": lambda path: parse_toml(read_bounded(path, TOML_BYTES + 1), where="x"),
    "sums": lambda path: parse_sums(read_bounded(path, SUMS_BYTES), where="x"),
    "mil": lambda path: parse_mil(read_bounded(path, MIL_BYTES).decode("utf-8", "replace")),
    "release": _release,
    "settings": read_deny_list,
    "manifest": lambda path: read_manifest(path.parent),
    "tokenizer": lambda path: read_tokenizer(path.parent),
}


def main() -> None:
    """Read and report; ``peak`` is in bytes, what the interpreter and its modules take included."""
    code = ""
    try:
        READERS[sys.argv[2]](Path(sys.argv[1]))
    except ForgepackError as err:
        code = err.code or type(err).__name__
    sys.stdout.write(json.dumps({"code": code, "peak": _peak()}))


def _peak() -> int:
    """Return the most memory that this process had; Linux counts its parent's into ru_maxrss."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
