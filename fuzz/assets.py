"""Seeded damage of a package's program, read where it may do harm: in the child process that reads assets."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from forgepack.artifacts.aimodel import HASH_FILE, METADATA_FILE, PROGRAM_FILE, read_asset_files
from forgepack.coreai_backend.reader import Wanted, read_assets
from forgepack.errors import ForgepackError
from fuzz.damage import damaged
from fuzz.seeds import STEM

# Seconds for one program, and how many lie on the disk at once.
SECONDS = 60.0
_BATCH = 50


def replay_assets(pair: Path, seeds: Iterable[int], folder: Path) -> Counter[str]:
    """Count how reading the damaged program of each seed ends, its hash written anew; a foreign error is raised."""
    good = pair / f"drafter/{STEM}.aimodel"
    program, metadata = (good / PROGRAM_FILE).read_bytes(), (good / METADATA_FILE).read_bytes()
    found: Counter[str] = Counter()
    pending = iter(seeds)
    while batch := tuple(islice(pending, _BATCH)):
        wanted: dict[str, Wanted] = {}
        for seed in batch:
            root = folder / f"{seed}.aimodel"
            root.mkdir(parents=True)
            data = damaged(program, seed)
            (root / PROGRAM_FILE).write_bytes(data)
            (root / HASH_FILE).write_bytes(hashlib.sha256(data).digest())
            (root / METADATA_FILE).write_bytes(metadata)
            try:
                wanted[root.name] = Wanted(files=read_asset_files(root), head=True)
            except ForgepackError as err:
                found[ending(err)] += 1
        for reading in read_assets(wanted, seconds=SECONDS).values():
            found[ending(reading if isinstance(reading, ForgepackError) else None)] += 1
        shutil.rmtree(folder)
    return found


def ending(err: ForgepackError | None) -> str:
    """Return an ending as the exit code of a command that builds, and the error's own code."""
    return "0 a value" if err is None else f"{err.exit_code} {err.code or type(err).__name__}"
