"""What the tests of the hub share: the served files, a profile that pins them, and a recorded world."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from forgepack.artifacts.lock import LOCK_NAME
from forgepack.hub import (
    Effects,
    FetchReport,
    FetchRequest,
    HubSettings,
    Progress,
    RetryPolicy,
    fetch_checkpoint,
    verify_checkpoint,
)
from forgepack.hub.staging import STAGING_NAME
from forgepack.profile import HubPin, Profile, load_profile
from tests.hub.loopback import LoopbackHub

REPO = "forge/drafter"
COMMIT = "4cfb6ad03268fed0f60ca96c1a659c0b1c77e50b"
OTHER = "0123456789abcdef0123456789abcdef01234567"
DONOR = hashlib.sha256(b"donor").hexdigest()
WEIGHTS = hashlib.shake_256(b"weights").digest(300_000)
FILES: dict[str, bytes] = {
    "LICENSE": b"Apache License 2.0\n",
    "NOTICE": b"Made by the Forge\n",
    "README.md": b"# A card\n",
    "config.json": b'{"block_size": 8}\n',
    "model.safetensors": WEIGHTS,
    "other/huge.gguf": b"GGUF" + bytes(1000),
}
TAKEN = sorted(set(FILES) - {"other/huge.gguf"})
PROFILE: Profile = replace(
    load_profile(),
    name="bench",
    hub=HubPin(
        repo=REPO,
        commit=COMMIT,
        files=("LICENSE", "NOTICE", "config.json", "model.safetensors"),
        optional_files=("README.md", "absent.md"),
    ),
    known_bad={DONOR: "the donor's weights"},
)
WEIGHTS_URL = f"/{REPO}/resolve/{COMMIT}/model.safetensors"


class Bench:
    """A hub, an output folder, and the effects of a fetch: sleeps are recorded, the clock moves by hand."""

    def __init__(self, hub: LoopbackHub, out: Path) -> None:
        self.hub = hub
        self.out = out
        self.sleeps: list[float] = []
        self.seen: list[Progress] = []
        self.now = 0.0
        self.tick = 0.0
        self.free = 1 << 40

    @property
    def effects(self) -> Effects:
        """The injected world."""
        return Effects(sleep=self.sleeps.append, clock=self._clock, report=self.listen, free=lambda _: self.free)

    def listen(self, progress: Progress) -> None:
        """Record the progress."""
        self.seen.append(progress)

    def _clock(self) -> float:
        self.now += self.tick
        return self.now

    def fetch(
        self,
        *,
        profile: Profile = PROFILE,
        revision: str | None = None,
        token: str | bool = False,
        policy: RetryPolicy | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> FetchReport:
        """Run fetch_checkpoint against the loopback hub."""
        request = FetchRequest(profile=profile, out=self.out, revision=revision, force=force, dry_run=dry_run)
        settings = HubSettings(endpoint=self.hub.url, token=token, timeout=5.0)
        return fetch_checkpoint(request, settings=settings, effects=self.effects, policy=policy)

    def verify(self, profile: Profile = PROFILE) -> FetchReport:
        """Run verify_checkpoint on the output folder."""
        return verify_checkpoint(FetchRequest(profile=profile, out=self.out), self.effects)

    def asked(self, method: str = "GET") -> list[str]:
        """Return the addresses asked for so far, without the queries."""
        return [r.path.partition("?")[0] for r in self.hub.log if r.method == method]

    def ranges(self, name: str = "model.safetensors") -> list[str]:
        """Return the Range headers of all requests for a file's bytes ("" for none)."""
        return [r.headers.get("range", "") for r in self.hub.log if r.method == "GET" and r.path.endswith("/" + name)]

    def complete(self) -> bool:
        """Say whether the folder claims to be complete."""
        return (self.out / LOCK_NAME).exists()

    def parts(self) -> list[int]:
        """Return the sizes of the staged parts."""
        return sorted(p.stat().st_size for p in (self.out / STAGING_NAME).glob("*.part"))


def tree_of(root: Path) -> dict[str, bytes]:
    """Return every file below a folder by its path, hidden ones too; {} when there is no folder."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def expected_tree(files: Mapping[str, bytes] = FILES, commit: str = COMMIT) -> dict[str, bytes]:
    """Return what a finished fetch must leave: the profile's files and the canonical lock."""
    taken = {name: files[name] for name in TAKEN}
    lock = {
        "adopted": False,
        "commit": commit,
        "files": [
            {"bytes": len(data), "evidence": "hub", "path": name, "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in sorted(taken.items())
        ],
        "repo": REPO,
        "schema": "forgepack.checkpoint-lock/2",
    }
    text = json.dumps(lock, indent=2, sort_keys=True) + "\n"
    return {LOCK_NAME: text.encode(), **taken}
