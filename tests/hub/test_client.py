"""What the hub answers wrongly, each with its own error, and where the token goes."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forgepack.errors import HubError, UsageError
from forgepack.hub import FetchRequest, HubClient, HubSettings, fetch_checkpoint
from forgepack.hub.bounded import Watch
from forgepack.hub.session import hub_session, origin_of
from tests.hub.bench import COMMIT, FILES, PROFILE, REPO, Bench, expected_tree, tree_of
from tests.hub.loopback import LoopbackHub

TOKEN = "hf_TheSecretOfThisTest"
TREE = f"/api/models/{REPO}/tree/"


def refused(bench: Bench, **options: Any) -> HubError:
    """Run a fetch that must end in a HubError and leave nothing that looks complete."""
    with pytest.raises(HubError) as caught:
        bench.fetch(**options)
    assert 6 == caught.value.exit_code
    assert not bench.complete()
    return caught.value


def test_a_missing_repository_is_told(bench: Bench) -> None:
    """The real hub says 401 to an anonymous request and 404 to one with a token."""
    del bench.hub.repos.repos[REPO]
    assert "hub-repo-missing" == refused(bench).code
    assert "hub-repo-missing" == refused(bench, token=TOKEN).code


def test_a_missing_commit_is_told(bench: Bench) -> None:
    """A commit that was never there, or is gone."""
    bench.hub.repos.repos[REPO].commits.clear()
    assert "hub-revision-missing" == refused(bench).code


def test_a_gated_repository_is_told_apart_from_a_missing_one(bench: Bench) -> None:
    """With no token, and with one that has no access; with the right one it is fetched."""
    repo = bench.hub.repos.repos[REPO]
    repo.gated, repo.token = True, TOKEN
    assert "hub-gated" == refused(bench).code
    error = refused(bench, token="hf_other")
    assert "hub-gated" == error.code
    assert "HF_TOKEN" in str(error.hint)
    bench.fetch(token=TOKEN)
    assert expected_tree() == tree_of(bench.out)


def test_a_private_repository_needs_its_token(bench: Bench) -> None:
    """It looks missing to anyone else."""
    repo = bench.hub.repos.repos[REPO]
    repo.private, repo.token = True, TOKEN
    assert "hub-repo-missing" == refused(bench).code
    bench.fetch(token=TOKEN)
    assert expected_tree() == tree_of(bench.out)


def test_the_token_of_the_environment_is_used(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """ExtraFiles no token, the client's own way to find one holds."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    repo = bench.hub.repos.repos[REPO]
    repo.private, repo.token = True, TOKEN
    request = FetchRequest(profile=PROFILE, out=bench.out)
    fetch_checkpoint(request, settings=HubSettings(endpoint=bench.hub.url), effects=bench.effects)
    assert expected_tree() == tree_of(bench.out)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ({"status": 401}, "hub-unauthorized"),
        ({"status": 403}, "hub-forbidden"),
        ({"status": 404}, "hub-not-found"),
        ({"status": 418}, "hub-status"),
        (
            {"status": 403, "headers": {"X-Error-Message": "Access to this resource is disabled."}},
            "hub-disabled",
        ),
        ({"status": 500}, "hub-unavailable"),
        ({"status": 503}, "hub-unavailable"),
        ({"status": 429}, "hub-rate-limit"),
        ({"drop": True}, "hub-unreachable"),
        ({"body": b"<html>Please log in</html>"}, "hub-not-json"),
        ({"body": b""}, "hub-not-json"),
        ({"body": b"\xff\xfe["}, "hub-not-json"),
        ({"body": b"{}"}, "hub-file-missing"),
        ({"body": b"[]"}, "hub-file-missing"),
        ({"body": b'{"error": "no"}'}, "hub-bad-answer"),
        ({"body": b"[1]"}, "hub-bad-answer"),
        ({"body": b"null"}, "hub-bad-answer"),
        ({"body": b'[{"type": "file", "path": "NOTICE"}]'}, "hub-bad-answer"),
        ({"status": 302, "headers": {"Location": "/loop"}}, "hub-not-found"),
        ({"status": 302, "headers": {"Location": "http://["}}, "hub-unreachable"),
        ({"status": 302, "headers": {"Location": "ftp://127.0.0.1/x"}}, "hub-redirect"),
        ({"status": 302, "headers": {"Location": f"{TREE}{COMMIT}"}}, "hub-redirect"),
    ],
)
def test_each_fault_of_the_listing_has_its_own_code(bench: Bench, damage: dict[str, Any], code: str) -> None:
    """Nothing is written, whatever the listing is damaged with."""
    bench.hub.fault("GET", "/tree/", times=99, **damage)
    assert code == refused(bench).code
    assert not bench.out.exists()


def test_a_listing_that_fails_for_a_while_is_asked_again(bench: Bench) -> None:
    """With the tool's own waits, and told to whoever listens."""
    bench.hub.fault("GET", "/tree/", status=503)
    bench.hub.fault("GET", "/tree/", drop=True)
    bench.fetch()
    assert [1.0, 2.0] == bench.sleeps
    assert 2 == len([p for p in bench.seen if p.phase == "retry"])
    assert expected_tree() == tree_of(bench.out)


def test_a_hub_that_is_down_is_told_within_four_attempts(bench: Bench) -> None:
    """With no network at all the error comes within seconds."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    settings = HubSettings(endpoint=url, token=False)
    with pytest.raises(HubError) as caught:
        fetch_checkpoint(FetchRequest(profile=PROFILE, out=bench.out), settings=settings, effects=bench.effects)
    assert ("hub-unreachable", [1.0, 2.0, 4.0]) == (caught.value.code, bench.sleeps)
    assert not bench.out.exists()


def test_a_listing_that_never_comes_times_out(bench: Bench) -> None:
    """The client itself would wait for ever: it lists without a timeout."""
    release = threading.Event()
    bench.hub.fault("GET", "/tree/", before=lambda: release.wait(10))
    settings = HubSettings(endpoint=bench.hub.url, token=False, timeout=0.2)
    fetch_checkpoint(FetchRequest(profile=PROFILE, out=bench.out), settings=settings, effects=bench.effects)
    release.set()
    assert [1.0] == bench.sleeps


def test_malformed_records_are_refused(bench: Bench) -> None:
    """Digests, sizes and doubles are checked before they are believed."""
    good = {"type": "file", "oid": "a" * 40, "size": 3, "path": "NOTICE"}
    lfs = {"oid": "b" * 64, "size": 3, "pointerSize": 130}
    for entry in (
        {**good, "oid": "a" * 39},
        {**good, "oid": "A" * 40},
        {**good, "size": -1},
        {**good, "size": True},
        {**good, "size": "3"},
        {**good, "lfs": {**lfs, "oid": "sha256:" + "b" * 64}},
        {**good, "lfs": {**lfs, "size": 4}},
        {**good, "lfs": {"oid": "b" * 64}},
    ):
        bench.hub.fault("GET", "/tree/", body=json.dumps([entry]).encode())
        assert "hub-bad-answer" == refused(bench).code
    double = [good, {**good, "oid": "c" * 40}]
    bench.hub.fault("GET", "/tree/", body=json.dumps(double).encode())
    assert "hub-bad-answer" == refused(bench).code


def test_a_listing_in_pages_is_read_to_its_end(tmp_path: Path) -> None:
    """Two entries a page, six pages."""
    with LoopbackHub(page=2) as hub:
        hub.add(REPO, COMMIT, FILES)
        bench = Bench(hub, tmp_path / "out")
        bench.fetch()
        assert 4 == len([p for p in bench.asked() if "/tree/" in p])
    assert expected_tree() == tree_of(bench.out)


def test_a_page_that_leads_to_itself_is_an_error(bench: Bench) -> None:
    """A hub can't keep the tool busy for ever: the second time is the last."""
    link = f'<{bench.hub.url}{TREE}{COMMIT}?cursor=0>; rel="next"'
    bench.hub.fault("GET", "/tree/", times=99, headers={"Link": link})
    assert "hub-endless" == refused(bench).code
    assert 2 == len(bench.hub.log)


@pytest.fixture
def stranger() -> Iterator[LoopbackHub]:
    """Return a second hub at another origin that serves the same repository."""
    with LoopbackHub.serve({REPO: {COMMIT: FILES}}) as hub:
        yield hub


def authorized(hub: LoopbackHub) -> set[bool]:
    """Return whether requests to a hub carried a token."""
    return {"authorization" in r.headers for r in hub.log}


def test_a_next_page_at_another_origin_does_not_get_the_token(bench: Bench, stranger: LoopbackHub) -> None:
    """The client alone would send it wherever the Link header points."""
    link = f'<{stranger.url}{TREE}{COMMIT}>; rel="next"'
    bench.hub.fault("GET", "/tree/", headers={"Link": link}, body=b"[]")
    bench.fetch(token=TOKEN)
    assert {False} == authorized(stranger)
    assert {True} == authorized(bench.hub)


@pytest.mark.parametrize("address", ["/tree/", "/resolve/"])
def test_a_redirect_to_another_origin_does_not_get_the_token(
    bench: Bench, stranger: LoopbackHub, address: str
) -> None:
    """Listing and bytes may lie elsewhere; the token stays at home."""
    path = TREE + COMMIT if address == "/tree/" else f"/{REPO}/resolve/{COMMIT}/model.safetensors"
    where = "/tree/" if address == "/tree/" else "model.safetensors"
    bench.hub.fault("GET", where, status=302, headers={"Location": stranger.url + path})
    bench.fetch(token=TOKEN)
    assert expected_tree() == tree_of(bench.out)
    assert {False} == authorized(stranger)


def test_storage_at_another_origin_does_not_get_the_token(tmp_path: Path) -> None:
    """The hub's own way to serve large files."""
    with LoopbackHub.serve({REPO: {COMMIT: FILES}}, storage=True) as hub:
        bench = Bench(hub, tmp_path / "out")
        bench.fetch(token=TOKEN)
        origins = {(f"http://{r.headers['host']}", "authorization" in r.headers) for r in hub.log}
    assert {(hub.url, True), (hub.repos.storage_url, False)} == origins
    assert expected_tree() == tree_of(bench.out)


def test_a_renamed_repository_is_followed_within_the_hub(bench: Bench) -> None:
    """A relative redirect keeps the origin and so the token."""
    bench.hub.add("forge/renamed", COMMIT, FILES)
    moved = f"/forge/renamed/resolve/{COMMIT}/NOTICE"
    bench.hub.fault("HEAD", f"{REPO}/resolve/.*NOTICE", status=307, headers={"Location": moved})
    bench.fetch(token=TOKEN)
    assert moved in bench.asked()
    assert {True} == authorized(bench.hub)


def test_the_token_is_in_no_error_lock_or_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Even where the server echoes it in its message."""
    caplog.set_level(logging.INFO)
    echo = {"X-Error-Message": f"bad token {TOKEN}", "X-Error-Code": "Odd"}
    for status in (400, 401, 403, 500):
        bench.hub.fault("GET", "/tree/", times=4, status=status, headers=echo)
        error = refused(bench, token=TOKEN)
        bench.hub._faults.clear()
        assert TOKEN not in str(error) + repr(error)
    error = refused(bench, token=TOKEN + "\n")
    assert TOKEN not in str(error)
    bench.fetch(token=TOKEN)
    assert TOKEN.encode() not in b"".join(tree_of(bench.out).values())
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(bench.seen)


def test_the_password_of_an_endpoint_is_in_no_error(bench: Bench) -> None:
    """A mirror's user and password may stand in its address."""
    url = bench.hub.url.replace("://", "://user:geheim@")
    bench.hub.fault("GET", "/tree/", status=404)
    with pytest.raises(HubError) as caught:
        fetch_checkpoint(
            FetchRequest(profile=PROFILE, out=bench.out),
            settings=HubSettings(endpoint=url, token=False),
            effects=bench.effects,
        )
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["hub.example", "file:///etc", "http://", "http://[", "http://h:x", "http://h/?a"]
)
def test_an_endpoint_that_is_no_address_is_a_usage_error(bench: Bench, endpoint: str) -> None:
    """It is refused before any request."""
    with pytest.raises(UsageError) as caught, HubClient(HubSettings(endpoint=endpoint)):
        pass
    assert "endpoint" == caught.value.code


def test_a_mirror_below_a_path_works(tmp_path: Path) -> None:
    """Enterprise mirrors serve the hub below a prefix."""
    with LoopbackHub(prefix="/api/huggingface/mirror", page=3) as hub:
        hub.add(REPO, COMMIT, FILES)
        bench = Bench(hub, tmp_path / "out")
        bench.fetch()
    assert expected_tree() == tree_of(bench.out)


def test_a_proxy_is_used(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests go to the proxy, with the hub's full address."""
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("HTTP_PROXY", bench.hub.url)
    settings = HubSettings(endpoint="http://hub.invalid", token=False)
    fetch_checkpoint(FetchRequest(profile=PROFILE, out=bench.out), settings=settings, effects=bench.effects)
    assert {"http://hub.invalid"} == {
        r.path.partition("/" + ("api" if "/api/" in r.path else REPO))[0] for r in bench.hub.log
    }
    assert expected_tree() == tree_of(bench.out)


def test_the_clients_offline_switch_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_HUB_OFFLINE is not mistaken for a missing network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "hub-offline" == refused(bench).code
    assert [] == bench.hub.log


def test_no_request_is_made_beside_the_pinned_ones(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's list of known agents is not asked for, and no xet token."""
    from huggingface_hub import constants
    from huggingface_hub.utils import _detect_agent

    template = bench.hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", bench.hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    monkeypatch.setattr(_detect_agent, "_registry", None)
    bench.fetch()
    resolve = f"/{REPO}/resolve/{COMMIT}/"
    expected = [TREE + COMMIT]
    expected += [resolve + name for name in ("LICENSE", "NOTICE", "README.md", "config.json", "model.safetensors")]
    assert expected == bench.asked()
    assert expected[1:] == bench.asked("HEAD")


def test_files_in_xet_storage_come_over_plain_http(bench: Bench) -> None:
    """The hub's headers for its own storage protocol are ignored: no request goes to its token address."""
    link = f'<{bench.hub.url}/api/models/{REPO}/xet-read-token/{COMMIT}>; rel="xet-auth"'
    bench.hub.fault("HEAD", "safetensors", headers={"X-Xet-Hash": "ab" * 32, "Link": link})
    bench.fetch()
    assert [] == [p for p in bench.asked() if "xet" in p]
    assert expected_tree() == tree_of(bench.out)


def test_requests_name_the_tool(bench: Bench) -> None:
    """The user agent is forgepack's."""
    bench.fetch()
    assert {True} == {r.headers["user-agent"].startswith("forgepack/") for r in bench.hub.log}


def test_the_clients_settings_are_put_back(bench: Bench) -> None:
    """Whatever happens in the session: factory, telemetry switch, verbosity."""
    from huggingface_hub import constants
    from huggingface_hub.utils import _http
    from huggingface_hub.utils import logging as client_logging

    def state() -> tuple[Any, ...]:
        return _http._GLOBAL_CLIENT_FACTORY, constants.HF_HUB_DISABLE_TELEMETRY, client_logging.get_verbosity()

    before = state()
    with hub_session(bench.hub.url, Watch(1.0)):
        assert before != state()
    assert before == state()
    bench.hub.fault("GET", "/tree/", status=403)
    refused(bench)
    assert before == state()


def test_the_package_is_imported_without_the_client() -> None:
    """huggingface_hub costs half a second that --help must not pay."""
    code = "import sys, forgepack.hub; print(sorted({'huggingface_hub', 'numpy', 'click'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]\n" == done.stdout


def test_origins_are_compared_with_their_default_ports() -> None:
    """Scheme, host and port make an origin; letter case does not."""
    assert origin_of("https://Hub.Example/x") == origin_of("HTTPS://hub.example:443/y?z")
    assert origin_of("http://hub.example") != origin_of("https://hub.example")
    assert origin_of("http://hub.example:1") != origin_of("http://hub.example:2")
