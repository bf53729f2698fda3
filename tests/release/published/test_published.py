"""Published releases: judged at a commit by the hub's own digests, weights never downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forgepack.artifacts.files import hash_file
from forgepack.errors import HubError, NothingToVerifyError, UsageError
from forgepack.hub import Effects, HubSettings, Progress
from forgepack.release.published.verify import PublishedRelease, name_release, verify_published
from forgepack.verify.findings.report import Depth, Report
from forgepack.verify.inputs.extra_files import ExtraFiles
from forgepack.verify.policy.acceptance import Policy
from forgepack.verify.policy.selection import Selection
from tests.hub.conftest import client_home  # noqa: F401  (an autouse fixture: nothing of this machine's settings)
from tests.hub.loopback import LoopbackHub
from tests.release.bench import STEM, edit, edit_listed, relist
from tests.verify.factory import tiny_profile
from tests.verify.running import check_of, explain_all, failed, roots, told

REPO = "tests/release"
COMMIT = "cd" * 20
WEIGHTS = (f"{STEM}.aimodel/main.mlirb", "selector.safetensors", "lm_head.safetensors", "embed_tokens_fp16.npy")


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    """Return a hub that serves nothing yet."""
    with LoopbackHub() as server:
        yield server


def look(hub: LoopbackHub, folder: Path | None = None, **options: Any) -> Report:
    """Publish a folder at COMMIT and verify it there."""
    if folder is not None:
        hub.add(REPO, COMMIT, folder)
    return verify_published(
        PublishedRelease(**{"repo": REPO, "commit": COMMIT, **options}),
        tiny_profile(),
        settings=HubSettings(endpoint=hub.url, token=False, timeout=5),
        effects=Effects(sleep=lambda _: None, clock=lambda: 0.0),
    )


def bytes_sent(hub: LoopbackHub, name: str) -> list[str]:
    """Return the ranges of all requests for a file's bytes ("" for none)."""
    return [r.headers.get("range", "") for r in hub.log if r.method == "GET" and r.path.endswith("/" + name)]


def test_good_release_passes_without_its_weights(hub: LoopbackHub, released: Path) -> None:
    """Every rule up to depth hash passes; of the export's layers the first bytes come alone."""
    report = look(hub, released)
    assert ("pass", 0) == (report.verdict, report.exit_code), explain_all(report)
    assert [f"{REPO}@{COMMIT}"] == [identity.path for identity in report.inputs]
    assert "release_sha256" in report.inputs[0].digests
    passed = {"PKG012", "PKG014", "CTR023", "CTR047", "CTR052", "CTR053", "HEAD008", "WGT017", "WGT018", "TOK001"}
    assert passed <= {check.id for check in report.checks if check.status == "pass"}
    assert 1 == len(bytes_sent(hub, "layer_00.safetensors"))
    assert all(bytes_sent(hub, name) for name in ("release.json", f"{STEM}.json", "lm_head.safetensors"))


def test_terms_hold_for_a_published_release(hub: LoopbackHub, released: Path) -> None:
    """Selections and withdrawn digests count as for a folder, and the files that name them are listed."""
    digest = hash_file(released / "drafter/selector.safetensors")[1]
    report = look(
        hub,
        released,
        policy=Policy(selection=Selection(ignore=("LIC006",))),
        extra_files=ExtraFiles(denied={digest: "withdrawn"}),
        named={"deny": "deny.toml"},
    )
    assert ({"SRC001", "SRC008"}, 1) == (failed(report), report.not_selected)
    assert {"deny", "hub"} == {identity.role for identity in report.inputs}


def test_weights_are_read_at_their_heads_and_mask_row(hub: LoopbackHub, released: Path) -> None:
    """Of the embedding come its header and, by a range, the row of the mask token."""
    look(hub, released)
    first, row = bytes_sent(hub, "embed_tokens_fp16.npy")
    assert ("", True) == (first, row.startswith("bytes="))
    offset = 128 + 2 * tiny_profile().geometry.hidden * tiny_profile().geometry.mask_token
    assert f"bytes={offset}-" == row


def flip_weight(root: Path, path: str) -> None:
    data = bytearray((root / path).read_bytes())
    data[-1] ^= 1
    (root / path).write_bytes(data)


@pytest.mark.parametrize(
    ("path", "also"),
    [
        (f"drafter/{STEM}.aimodel/main.mlirb", "PKG012"),
        ("drafter/selector.safetensors", "PKG014"),
        ("export/tiny_lr64mix/lm_head.safetensors", "HEAD008"),
        ("export/tiny_lr64mix/layer_00.safetensors", "CTR023"),
        ("model/embed_tokens_fp16.npy", "WGT017"),
    ],
)
def test_changed_weight_is_seen_by_digest_alone(hub: LoopbackHub, bundle: Path, path: str, also: str) -> None:
    """A bit of a weight that was never downloaded is told against release.json and against the sidecar."""
    flip_weight(bundle, path)
    report = look(hub, bundle)
    assert {"CTR047", also} <= {check.id for check in report.failed("error")}, explain_all(report)
    assert path in told(report, "CTR047")


def test_weight_that_release_json_vouches_for_is_seen_by_the_sidecar(hub: LoopbackHub, bare: Path) -> None:
    """release.json written again over another layer passes section 7; the sidecar's digests tell it."""
    flip_weight(bare, "export/tiny_lr64mix/layer_00.safetensors")
    relist(bare, "export/tiny_lr64mix/layer_00.safetensors")
    assert ["CTR023"] == roots(look(hub, bare))


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda root: (root / "NOTICE").unlink(), "CTR045"),
        (lambda root: (root / "drafter/notes.bin").write_bytes(b"x"), "CTR045"),
        (lambda root: edit(root / "release.json", lambda raw: raw.update(schema_version=2)), "CTR040"),
        (lambda root: (root / "release.json").write_text("{"), "FMT001"),
        (lambda root: edit_listed(root, "coreai/manifest.json", lambda raw: raw.update(T=4)), "CTR014"),
        (lambda root: edit(root / f"drafter/{STEM}.json", lambda raw: raw.update(W=1)), "CTR003"),
        (lambda root: (root / "model/embed_tokens_fp16.npy").write_bytes(b"<html>"), "FMT011"),
    ],
    ids=["lost", "unlisted", "version", "json", "block", "window", "html"],
)
def test_faults_of_a_release_are_findings(
    hub: LoopbackHub, bare: Path, change: Callable[[Path], object], cause: str
) -> None:
    """What --bundle refuses is refused by the same rule at the hub."""
    change(bare)
    report = look(hub, bare)
    assert ("fail", 1) == (report.verdict, report.exit_code)
    assert cause in {check.id for check in report.failed("error")}, explain_all(report)


def test_plain_and_optional_parts(hub: LoopbackHub, bare: Path) -> None:
    """A release published without its export passes with a note; --plain asks for nothing of the drafter."""
    shutil.rmtree(bare / "export")
    report = look(hub, bare)
    assert "pass" == report.verdict, explain_all(report)
    assert "component export" in told(report, "CTR055")
    hub.log.clear()
    assert "pass" == look(hub, plain=True).verdict
    assert [] == [r.path for r in hub.log if "/drafter/" in r.path]


def test_header_depth_needs_no_digest(hub: LoopbackHub, released: Path) -> None:
    """At depth header the digests are not judged."""
    report = look(hub, released, depth=Depth.HEADER)
    assert ("pass", "not-evaluated") == (report.verdict, check_of(report, "CTR047").status)


def test_depth_that_needs_weights_is_refused(hub: LoopbackHub, released: Path) -> None:
    """Lineage can't be proven without the weights; the hint says how it can."""
    with pytest.raises(UsageError, match="verify --bundle"):
        look(hub, released, depth=Depth.LINEAGE)


def test_commit_without_release_holds_nothing_to_verify(hub: LoopbackHub) -> None:
    """A repository of something else is no refused release."""
    hub.add(REPO, COMMIT, {"README.md": b"a model\n"})
    with pytest.raises(NothingToVerifyError, match=r"release\.json"):
        look(hub)


@pytest.mark.parametrize("fault", [{"status": 503, "times": 99}, {"drop": True, "times": 99}], ids=["503", "drop"])
def test_hub_that_fails_is_exit_6(hub: LoopbackHub, released: Path, fault: dict[str, Any]) -> None:
    """A hub that stays away is no verdict on the release."""
    hub.add(REPO, COMMIT, released)
    hub.fault("GET", r"lm_head\.safetensors", **fault)
    with pytest.raises(HubError) as caught:
        look(hub)
    assert 6 == caught.value.exit_code


def test_cut_answers_are_asked_for_again(hub: LoopbackHub, released: Path) -> None:
    """One cut in the middle of a head is repaired by asking again."""
    hub.add(REPO, COMMIT, released)
    hub.fault("GET", r"embed_tokens_fp16\.npy", cut=50)
    assert "pass" == look(hub).verdict


def test_hub_that_ignores_ranges_is_told(hub: LoopbackHub, released: Path) -> None:
    """A mirror that answers a range with the whole file would have the embedding downloaded: refused."""
    hub.add(REPO, COMMIT, released)
    for request in range(2):
        hub.fault(
            "GET", r"embed_tokens_fp16\.npy", status=200 if request else None, body=bytes(10_000) if request else None
        )
    with pytest.raises(HubError, match="part of a file"):
        look(hub)


@pytest.mark.parametrize("text", ["", "release", "tests/release", f"@{COMMIT}", f"a/b/c@{COMMIT}", f"../x@{COMMIT}"])
def test_name_of_another_form_is_a_usage_error(text: str) -> None:
    """--hub takes owner/name@commit and nothing else."""
    with pytest.raises(UsageError, match="REPO@COMMIT"):
        name_release(text, tiny_profile(), HubSettings(endpoint="http://127.0.0.1:9", token=False))


def test_branch_is_refused_and_its_commit_told(hub: LoopbackHub, released: Path) -> None:
    """A branch moves: the error names the commit that it points to now, in the words of this option."""
    hub.add(REPO, COMMIT, released)
    settings = HubSettings(endpoint=hub.url, token=False)
    with pytest.raises(UsageError, match=f"--hub {REPO}@{COMMIT}"):
        name_release(f"{REPO}@main", tiny_profile(), settings)
    assert (REPO, COMMIT) == name_release(f"{REPO}@{COMMIT}", tiny_profile(), settings)


def test_progress_names_what_is_fetched(hub: LoopbackHub, released: Path) -> None:
    """Each fetched file is told once it begins."""
    hub.add(REPO, COMMIT, released)
    seen: list[Progress] = []
    verify_published(
        PublishedRelease(repo=REPO, commit=COMMIT),
        tiny_profile(),
        settings=HubSettings(endpoint=hub.url, token=False),
        effects=Effects(sleep=lambda _: None, clock=lambda: 0.0, report=seen.append),
    )
    assert "list" == seen[0].phase
    assert {"release.json", "export/tiny_lr64mix/lm_head.safetensors"} <= {progress.path for progress in seen}
