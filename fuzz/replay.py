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
from contextlib import contextmanager
from pathlib import Path

from forgepack.profile import Profile
from fuzz.assets import ending, replay_assets
from fuzz.damage import damaged
from fuzz.readers import READERS, Reader, seed_of, try_bytes
from fuzz.structure import reshaped
from tests.verify.conftest import build_pair
from tests.verify.factory import tiny_profile

CORPUS = Path(__file__).parent / "corpus"
# Of processor time, for one input.
SECONDS = 20.0
MEMORY = 8 << 30
ASSET = "asset"


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
        found[ending(err)] += 1
    return found


def main() -> int:
    """Replay all seeds of all readers and of the package's program, or of those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", default=[*sorted(READERS), ASSET])
    parser.add_argument("--seeds", type=int, default=1000)
    options = parser.parse_args()
    failed, total = 0, Counter[str]()
    with tempfile.TemporaryDirectory() as work:
        profile = tiny_profile()
        pair = build_pair(Path(work) / "pair", profile)
        folder = Path(work) / "input"
        folder.mkdir()
        for name in options.readers:
            start = time.monotonic()
            try:
                found = _replayed(name, pair, folder, range(options.seeds), profile)
            except Exception:  # noqa: BLE001  (a reader that ends in anything else is what is looked for)
                failed += 1
                print(f"{name}: {traceback.format_exc()}")
                continue
            for code, count in found.items():
                total[code.split()[0]] += count
            codes = ", ".join(f"{code} {count}" for code, count in found.most_common())
            print(f"{name}: {options.seeds} seeds in {time.monotonic() - start:.1f} s: {codes}", flush=True)
    print("by exit code: " + ", ".join(f"{code} {count}" for code, count in sorted(total.items())))
    return 1 if failed else 0


def _replayed(name: str, pair: Path, folder: Path, seeds: Iterable[int], profile: Profile) -> Counter[str]:
    if name == ASSET:  # in children, which have limits of their own
        return replay_assets(pair, seeds, folder / "assets")
    reader = READERS[name]
    good = seed_of(reader, pair, profile)
    with _limited_memory():
        found = replay(reader, good, seeds, folder, profile)
        for data in stored_inputs(name):
            try_bytes(reader, data, folder, profile)
    return found


@contextmanager
def _limited_memory() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


if __name__ == "__main__":
    sys.exit(main())
