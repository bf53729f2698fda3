"""Coverage-guided fuzzing of one reader: ``python -m fuzz.run READER WORK [libFuzzer options]``.

WORK keeps the corpus between runs; libFuzzer writes what breaks a reader beside it. Needs the group ``fuzz``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["forgepack"]):
    import forgepack.cli.verify  # noqa: F401  (imported when a configuration asks for its options)
    from fuzz.readers import READERS, seed_of, try_bytes
from fuzz.damage import damaged
from fuzz.replay import stored_inputs
from fuzz.structure import reshaped
from tests.verify.conftest import build_pair
from tests.verify.factory import tiny_profile

_SEEDS = 50


def _mutated(data: bytes, size: int, seed: int) -> bytes:
    """Return the next input: bytes as libFuzzer changes them, or a change that keeps the file's frame."""
    changed = atheris.Mutate(data, size) if seed % 3 == 0 else reshaped(data, seed)
    return bytes(changed[:size])


def main() -> None:
    """Fill the corpus and hand over to libFuzzer, which ends the process."""
    name, work = sys.argv[1], Path(sys.argv[2])
    profile, reader = tiny_profile(), READERS[name]
    corpus = work / "corpus" / name
    folder = Path(tempfile.mkdtemp())
    if not corpus.exists():
        corpus.mkdir(parents=True)
        good = seed_of(reader, build_pair(folder / "pair", profile), profile)
        seeds = [good, *(damaged(good, seed) for seed in range(_SEEDS)), *stored_inputs(name)]
        for number, data in enumerate(seeds):
            (corpus / f"seed{number}").write_bytes(data)
    inputs = folder / "input"
    inputs.mkdir()

    def one(data: bytes) -> None:
        try_bytes(reader, data, inputs, profile)

    limits = ["-timeout=20", "-rss_limit_mb=4096", "-print_final_stats=1", f"-artifact_prefix={work}/{name}-"]
    atheris.Setup([sys.argv[0], str(corpus), *limits, *sys.argv[3:]], one, custom_mutator=_mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
