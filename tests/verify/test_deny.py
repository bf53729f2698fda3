"""What was withdrawn by digest is refused wherever the digest shows, by the profile's list or a file's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from forgepack.artifacts.attestation import read_attestation
from forgepack.artifacts.deny import read_deny_list
from forgepack.artifacts.files import hash_file
from forgepack.errors import UsageError
from forgepack.profile import Profile
from forgepack.release.replay.drafter_identity import drafter_sha256
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.extra_files import ExtraFiles
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from tests.verify.attested import make_sibling, write_attestation
from tests.verify.factory import tiny_profile
from tests.verify.running import failed, told, verified
from tests.verify.sabotage import ASSET, CONFIG, HEAD, SIDECAR

REASON = "withdrawn: it drafts for the wrong target"
STATED: dict[str, Callable[[Path], str]] = {
    "program": lambda root: hash_file(root / ASSET / "main.mlirb")[1],
    "codebooks": lambda root: hash_file(root / "drafter/selector.safetensors")[1],
    "config": lambda root: hash_file(root / CONFIG)[1],
    "head": lambda root: hash_file(root / HEAD)[1],
    "drafter, as a replay names it": lambda root: drafter_sha256(root / "drafter", tiny_profile()),
    "checkpoint": lambda root: str(
        json.loads((root / SIDECAR).read_bytes())["forgepack"]["checkpoint"]["model_sha256"]
    ),
}
FOUND = {"sidecar's file": SIDECAR, "tokenizer": "target/model/tokenizer.json", "licence": "drafter/LICENSE"}


def denying(root: Path, digest: str, depth: str) -> Report:
    path = root / "deny.toml"
    path.write_text(f'[[deny]]\nsha256 = "{digest}"\nreason = "{REASON}"\n')
    sources = find_sources(root / "drafter", root / "target")
    given = ExtraFiles(denied=read_deny_list(path).reasons)
    return verify(OpenPair(replace(sources, extra_files=given), tiny_profile(), Depth[depth.upper()], seconds=60))


@pytest.mark.parametrize("name", STATED)
def test_what_is_stated_is_refused_at_the_first_depth(pair: Path, name: str) -> None:
    """Digests of package, sources and target that headers and sidecar hold need no byte of the weights."""
    report = denying(pair, STATED[name](pair), "header")
    assert {"SRC001"} == failed(report)
    assert REASON in told(report, "SRC001")


@pytest.mark.parametrize("name", FOUND)
def test_every_file_that_is_read_is_looked_up(pair: Path, name: str) -> None:
    """At depth hash any file's own digest can be on the list."""
    report = denying(pair, hash_file(pair / FOUND[name])[1], "hash")
    assert "SRC008" in failed(report)
    assert REASON in told(report, "SRC008")


def test_other_digests_touch_nothing(pair: Path) -> None:
    """A list that names something else changes no verdict."""
    assert "pass" == denying(pair, "0" * 64, "hash").verdict


def test_an_attestation_can_be_withdrawn(pair: Path) -> None:
    """By its own digest, without touching package or target."""
    make_sibling(pair)
    path = write_attestation(pair)
    attestation = read_attestation(path, "attestation")
    digest = json.loads(path.read_bytes())["sha256"]
    given = ExtraFiles(attestations=(attestation,), denied={digest: REASON})
    sources = replace(find_sources(pair / "drafter", pair / "sibling"), extra_files=given)
    report = verify(OpenPair(sources, tiny_profile(), Depth.HEADER, seconds=60))
    assert {"SRC001"} == failed(report)


def test_the_profile_lists_count_as_before(pair: Path) -> None:
    """known_bad and withdrawn of the profile are looked up, too."""
    digest = hash_file(pair / ASSET / "main.mlirb")[1]
    for key in ("known_bad", "withdrawn"):
        profile: Profile = tiny_profile(**{key: {digest: REASON}})
        assert REASON in told(verified(pair, profile=profile), "SRC001")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[deny]]\n",
        '[[deny]]\nsha256 = "ab"\nreason = "r"\n',
        '[[deny]]\nsha256 = "' + "AB" * 32 + '"\nreason = "r"\n',
        '[[deny]]\nsha256 = "' + "ab" * 32 + '"\nreason = " "\n',
        '[[deny]]\nsha256 = "' + "ab" * 32 + '"\nreason = "r"\nuntil = 2030-01-01\n',
        "deny = 1\n",
        "[deny\n",
    ],
)
def test_a_malformed_list_is_a_usage_error(tmp_path: Path, text: str) -> None:
    """A list that can't be read whole withdraws nothing silently."""
    path = tmp_path / "deny.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_deny_list(path)
    assert str(path) in str(caught.value)
