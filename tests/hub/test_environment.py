"""Variables that the hub's client reads by itself: a bad one is named, and no secret is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forgepack.errors import UsageError
from forgepack.hub.environment import check_environment
from tests.hub.bench import COMMIT, FILES, REPO, Bench
from tests.hub.loopback import LoopbackHub

ROOT = Path(__file__).parents[2]
BAD: dict[str, tuple[str, str]] = {
    "a SOCKS proxy without its package": ("ALL_PROXY", "socks5h://127.0.0.1:9"),
    "a scheme that is none": ("all_proxy", "socks://127.0.0.1:9"),
    "an older SOCKS": ("HTTP_PROXY", "socks4://127.0.0.1:9"),
    "half of an address": ("https_proxy", "http://["),
    "a port that is none": ("HTTPS_PROXY", "http://proxy:99999"),
    "no host": ("HTTP_PROXY", "http://"),
    "blanks": ("http_proxy", "http://a b"),
    "no certificates": ("SSL_CERT_FILE", "/nonexistent"),
    "a file of no certificates": ("SSL_CERT_FILE", __file__),
    "no folder of certificates": ("SSL_CERT_DIR", "/nonexistent"),
    "keys that can't be logged": ("SSLKEYLOGFILE", "/nonexistent/keys"),
    "a token outside ASCII": ("HF_TOKEN", "hf_s\u00e9cret"),
    "a token of two lines": ("HF_TOKEN", "hf_secret\nX-Header: 1"),
    "an old token": ("HUGGING_FACE_HUB_TOKEN", "hf_secret\x1b"),
    "an agent outside ASCII": ("HF_HUB_USER_AGENT_ORIGIN", "\u00fc"),
}
GOOD: dict[str, dict[str, str]] = {
    "nothing": {},
    "all hosts without a proxy": {"ALL_PROXY": "socks://x", "NO_PROXY": "a.example, *"},
    "the lower name counts": {"HTTP_PROXY": "nonsense://", "http_proxy": "http://proxy:3128"},
    "a proxy by host alone": {"HTTPS_PROXY": "user:pa%20ss@proxy:3128"},
    "an odd NO_PROXY": {"NO_PROXY": "::::,[,/8,*.x"},
    "a token with a final line end": {"HF_TOKEN": "hf_abc\n"},
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_variable_is_named(name: str) -> None:
    """Exit 2 with the name; the value of a token appears nowhere."""
    variable, value = BAD[name]
    with pytest.raises(UsageError) as caught:
        check_environment({variable: value})
    told = str(caught.value)
    assert (2, variable, True) == (caught.value.exit_code, caught.value.where, variable in str(caught.value.hint))
    assert "cret" not in told


@pytest.mark.parametrize("name", GOOD)
def test_what_can_be_used_passes(name: str) -> None:
    """No variable is refused that a request can be made with."""
    check_environment(GOOD[name])


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("HF_HUB_ETAG_TIMEOUT", "abc", 2),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "1.5.", 2),
        ("HF_ENDPOINT", "http://[", 2),
        ("HF_ENDPOINT", "http://a b", 2),
        ("HF_TOKEN_PATH", "/", 6),
    ],
)
def test_the_command_names_it_too(tmp_path: Path, variable: str, value: str, code: int) -> None:
    """What is read at the client's import, in a process of its own."""
    with LoopbackHub.serve({REPO: {COMMIT: FILES}}) as hub:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "HF_ENDPOINT": hub.url, "NO_PROXY": "*", variable: value}
        env.pop("HF_TOKEN", None)
        command = [sys.executable, "-m", "forgepack", "fetch", "--profile", "mini", "--out", str(tmp_path / "out")]
        done = subprocess.run([*command, "--timeout", "2"], env=env, capture_output=True, text=True, check=False)
    assert (code, True) == (done.returncode, variable in done.stderr), done.stderr


def test_a_stored_token_that_no_request_can_hold(bench: Bench, client_home: Path) -> None:
    """The file is named, its content is not."""
    (client_home / "token").write_text("hf_s\u00e9cret")
    from forgepack.errors import HubError
    from forgepack.hub import FetchRequest, HubSettings, fetch_checkpoint
    from tests.hub.bench import PROFILE

    with pytest.raises(HubError) as caught:
        fetch_checkpoint(
            FetchRequest(profile=PROFILE, out=bench.out),
            settings=HubSettings(endpoint=bench.hub.url),
            effects=bench.effects,
        )
    assert ("hub-token", False) == (caught.value.code, "cret" in str(caught.value))
