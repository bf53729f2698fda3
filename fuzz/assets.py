"""Seeded damage of a package's program, read where it may do harm: in the child process that reads assets."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from forgepack.artifacts.aimodel import HASH_FILE, METADATA_FILE, PROGRAM_FILE, read_asset_files
from forgepack.coreai_backend.reader import AssetReader, limits_for
from forgepack.errors import ForgepackError, PlatformError
from fuzz.damage import damaged
from fuzz.seeds import STEM

# For one program.
SECONDS = 60.0


def replay_assets(pair: Path, seeds: Iterable[int], folder: Path) -> Counter[str]:
    """Count how reading the damaged program of each seed ends, its hash written anew; a foreign error is raised."""
    good = pair / f"drafter/{STEM}.aimodel"
    program, metadata = (good / PROGRAM_FILE).read_bytes(), (good / METADATA_FILE).read_bytes()
    found: Counter[str] = Counter()
    largest = limits_for(read_asset_files(good), spare=len(program))
    with AssetReader(lambda: largest, seconds=SECONDS) as reader:
        for seed in seeds:
            root = folder / f"{seed}.aimodel"
            root.mkdir(parents=True)
            data = damaged(program, seed)
            (root / PROGRAM_FILE).write_bytes(data)
            (root / HASH_FILE).write_bytes(hashlib.sha256(data).digest())
            (root / METADATA_FILE).write_bytes(metadata)
            found[_ending_of(root, reader)] += 1
            shutil.rmtree(root)
    return found


def _ending_of(root: Path, reader: AssetReader) -> str:
    try:
        reader.read(read_asset_files(root), head=True)
    except PlatformError:  # not the program's doing
        raise
    except ForgepackError as err:
        return ending(err)
    return ending(None)


def ending(err: ForgepackError | None) -> str:
    """Return an ending as the exit code of a command that builds, and the error's own code."""
    return "0 a value" if err is None else f"{err.exit_code} {err.code or type(err).__name__}"
