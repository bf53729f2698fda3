"""A small repository on a loopback hub, the real huggingface_hub client, and nothing of this machine's settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.bench import COMMIT, FILES, REPO, Bench
from tests.hub.loopback import LoopbackHub


@pytest.fixture(autouse=True)
def client_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the client away from this machine's token, cache, proxies and endpoint, whenever it was imported."""
    from huggingface_hub import constants

    home = tmp_path_factory.mktemp("hf")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.setattr(constants, "HF_HOME", str(home))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(home / "stored_tokens"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return home


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    """Return a hub that serves FILES of REPO at COMMIT."""
    with LoopbackHub.serve({REPO: {COMMIT: FILES}}) as server:
        yield server


@pytest.fixture
def bench(hub: LoopbackHub, tmp_path: Path) -> Bench:
    """Return the hub with everything that a fetch needs, recorded."""
    return Bench(hub, tmp_path / "checkpoint")
