"""Replay seeded damage through every reader: ``python -m fuzz.replay [--seeds 1000] [READER …]``."""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from forgepack.profile import Profile
from fuzz.damage import damaged
from fuzz.readers import READERS, Reader, seed_of, try_bytes
from fuzz.structure import reshaped
from tests.verify.conftest import build_pair
from tests.verify.factory import tiny_profile

CORPUS = Path(__file__).parent / "corpus"
# Of processor time, for one input.
SECONDS = 20.0
MEMORY = 8 << 30


def stored_inputs(name: str) -> Iterator[bytes]:
    """Yield the inputs that once broke a reader, or might have."""
    yield from (path.read_bytes() for path in sorted((CORPUS / name).glob("*")) if path.is_file())


def damage_of(good: bytes, seed: int) -> bytes:
    """Return a seed's input: for every second one the frame of the format is kept."""
    return reshaped(good, seed) if seed % 2 else damaged(good, seed)


def replay(reader: Reader, good: bytes, seeds: Iterable[int], folder: Path, profile: Profile) -> Counter[str]:
    """Count the codes that a reader ends in on the damage of each seed; what is no error of ours is raised."""
    found: Counter[str] = Counter()
    for seed in seeds:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            err = try_bytes(reader, damage_of(good, seed), folder, profile)
        except Exception as other:
            other.add_note(f"seed {seed}")
            raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        found["a value" if err is None else f"{err.exit_code} {err.code or type(err).__name__}"] += 1
    return found


def main() -> int:
    """Replay all seeds of all readers, or of those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", default=sorted(READERS))
    parser.add_argument("--seeds", type=int, default=1000)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        profile = tiny_profile()
        pair = build_pair(Path(work) / "pair", profile)
        folder = Path(work) / "input"
        folder.mkdir()
        for name in options.readers:
            reader, start = READERS[name], time.monotonic()
            good = seed_of(reader, pair, profile)
            try:
                found = replay(reader, good, range(options.seeds), folder, profile)
                for data in stored_inputs(name):
                    try_bytes(reader, data, folder, profile)
            except Exception:  # noqa: BLE001  (a reader that ends in anything else is what is looked for)
                failed += 1
                print(f"{name}: {traceback.format_exc()}")
                continue
            codes = ", ".join(f"{code} {count}" for code, count in found.most_common())
            print(f"{name}: {options.seeds} seeds in {time.monotonic() - start:.1f} s: {codes}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
