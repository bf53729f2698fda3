"""Facts of a checkpoint, as its lock states them: repository, commit, and the digests of what counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from forgepack.artifacts.checkpoint import CONFIG_FILE, MODEL_FILE
from forgepack.artifacts.lock import LOCK_NAME, CheckpointLock
from forgepack.facts.fact import Fact


def checkpoint_facts(root: Path, lock: CheckpointLock) -> Iterator[Fact]:
    """Yield what identifies a checkpoint; a file that the lock does not list has the digest None."""
    digests = {file.path: file.sha256 for file in lock.files}
    values = {
        "repo": lock.repo,
        "commit": lock.commit,
        "adopted": lock.adopted,
        "lock_sha256": lock.digest,
        "model_sha256": digests.get(MODEL_FILE),
        "config_sha256": digests.get(CONFIG_FILE),
    }
    for key, value in values.items():
        yield Fact(path=key, value=value, file=root / LOCK_NAME, subject=f"{key} of the checkpoint")
