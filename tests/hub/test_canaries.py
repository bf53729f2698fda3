"""Canaries: what this tool uses of huggingface_hub beyond its documented interface still is what it was.

When the bounds in pyproject.toml move, these say what broke.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from forgepack.artifacts.files import hash_file
from forgepack.errors import HubError
from forgepack.hub import HubClient, HubSettings
from forgepack.hub.client_record import read_client_record, refuse_other_bytes, refuse_other_source
from forgepack.hub.faults import http_library
from tests.hub.bench import COMMIT, REPO, Bench

# tests/test_private_names.py holds the package's source to this list.
PRIVATE_NAMES = ("huggingface_hub.utils._http._GLOBAL_CLIENT_FACTORY",)


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_private_name_is_callable(name: str) -> None:
    """The name can be imported from where this tool takes it."""
    module, _, attribute = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))


def test_the_factory_is_put_back_through_the_public_setter() -> None:
    """The private name holds what set_client_factory sets: reading it is the only way to restore it."""
    from huggingface_hub import get_session, set_client_factory
    from huggingface_hub.utils import _http

    original = _http._GLOBAL_CLIENT_FACTORY
    made = []

    def factory() -> object:
        made.append(original())
        return made[-1]

    try:
        set_client_factory(factory)
        assert factory is _http._GLOBAL_CLIENT_FACTORY
        assert get_session() is made[0]
    finally:
        set_client_factory(original)
    assert original is _http._GLOBAL_CLIENT_FACTORY


def test_a_session_has_the_hooks_that_are_replaced() -> None:
    """event_hooks is a mapping with requests among its keys, send a method."""
    from huggingface_hub import get_session

    client = get_session()
    assert {"request"} <= set(client.event_hooks)
    assert callable(client.send)


def test_switches_and_errors_have_their_kinds() -> None:
    """Constants, log levels and error families that are named but not documented are there."""
    from huggingface_hub import constants, errors
    from huggingface_hub.utils import logging

    assert isinstance(constants.HF_HUB_DISABLE_TELEMETRY, bool)
    assert isinstance(constants.ENDPOINT, str)
    assert isinstance(logging.get_verbosity(), int)
    assert callable(logging.set_verbosity_error)
    assert issubclass(errors.HfHubHTTPError, OSError)
    for name in ("DeviceCodeError", "OIDCError", "OfflineModeIsEnabled"):
        assert issubclass(getattr(errors, name), Exception)


@pytest.mark.parametrize(
    "name",
    [
        *("TransportError", "TimeoutException", "TooManyRedirects", "UnsupportedProtocol"),
        *("LocalProtocolError", "DecodingError"),
    ],
)
def test_the_http_library_has_its_errors(name: str) -> None:
    """The library below the client is told by the base of its error, and its errors are one family."""
    library = http_library()
    assert issubclass(getattr(library, name), library.HTTPError)


@pytest.mark.parametrize("name", ["InvalidURL", "StreamError"])
def test_the_http_librarys_other_errors(name: str) -> None:
    """Two errors stand outside that family."""
    assert issubclass(getattr(http_library(), name), Exception)


def test_functions_take_what_they_are_given() -> None:
    """Keywords that this tool passes are parameters still."""
    from huggingface_hub import HfApi, get_hf_file_metadata
    from huggingface_hub.utils import build_hf_headers

    for function, names in (
        (get_hf_file_metadata, {"token", "timeout", "endpoint", "library_name", "library_version"}),
        (build_hf_headers, {"token", "library_name", "library_version"}),
        (HfApi.list_repo_tree, {"recursive", "revision"}),
        (HfApi.model_info, {"revision", "timeout"}),
    ):
        assert names <= set(inspect.signature(function).parameters)


def test_a_download_notes_its_commit_where_adoption_looks_for_it(bench: Bench, tmp_path: Path) -> None:
    """The client's record beside a local folder starts with the commit: undocumented, and read by fetch --adopt."""
    from huggingface_hub import hf_hub_download

    shared = {"revision": COMMIT, "endpoint": bench.hub.url, "token": False}
    for name in ("NOTICE", "model.safetensors"):
        hf_hub_download(REPO, name, local_dir=tmp_path / "got", **shared)
        cached = Path(hf_hub_download(REPO, name, cache_dir=tmp_path / "cache", **shared))
        for folder, kinds in (
            (tmp_path / "got", {"commit", "digest"}),
            (cached.parent, {"commit", "digest", "repo"}),
        ):
            record = read_client_record(folder, name, COMMIT)
            refuse_other_source(record, repo=REPO, commit=COMMIT)
            refuse_other_bytes(record, hash_file(folder / name)[1], lambda _: None)
            assert kinds == {one.kind for one in record.statements}
            assert "client" == record.evidence


def test_the_client_sends_through_the_guarded_session(bench: Bench) -> None:
    """Listing, metadata and model info all use get_session: a fault reaches us after one request, not six."""
    bench.hub.fault("GET", "/tree/", status=503)
    bench.hub.fault("HEAD", "", status=503)
    settings = HubSettings(endpoint=bench.hub.url, token=False)
    with HubClient(settings) as client:
        with pytest.raises(HubError):
            client.list_files(REPO, COMMIT)
        file = client.list_files(REPO, COMMIT)["NOTICE"]
        with pytest.raises(HubError), client.open(REPO, COMMIT, file, 0):
            pass
    assert 3 == len(bench.hub.log)
