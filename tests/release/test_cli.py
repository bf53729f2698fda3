"""The commands bundle and verify --bundle, --hub: streams, forms, and every documented exit code."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from forgepack.cli.main import run
from tests.hub.bench import tree_of
from tests.hub.conftest import client_home  # noqa: F401  (an autouse fixture: nothing of this machine's settings)
from tests.hub.loopback import LoopbackHub
from tests.release.bench import STEM, UPSTREAM, edit
from tests.verify.factory import EXPORT

REPO, COMMIT = "tests/release", "cd" * 20


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.delenv("FORGEPACK_PROFILE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bundle_args(base: Path, out: str = "out", *more: str) -> list[str]:
    """Return a command line that bundles the good pair."""
    upstream = ["--upstream-id", UPSTREAM.id, "--upstream-revision", UPSTREAM.revision]
    profile = ["--profile", str(base / "profile.json")]
    return [
        "bundle",
        str(base / "drafter"),
        "--target",
        str(base / "target"),
        "--out",
        out,
        *profile,
        *upstream,
        *more,
    ]


def verify_args(base: Path, *args: str) -> list[str]:
    """Return a command line that verifies under the tiny profile."""
    return ["verify", *args, "--profile", str(base / "profile.json")]


def test_bundle_tells_what_it_wrote(base: Path, released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data on stdout, messages on stderr; the folder is the one that the library writes, --out relative or not."""
    assert 0 == run(bundle_args(base))
    done = capsys.readouterr()
    assert "out: " in done.out
    assert "release.json sha256" in done.out
    assert "copy" in done.err
    assert tree_of(released) == tree_of(Path("out"))


def test_bundle_as_json(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints one object, -q leaves stderr empty."""
    assert 0 == run(["-q", *bundle_args(base, "out", "--json", "--no-export")])
    done = capsys.readouterr()
    report = json.loads(done.out)
    assert ("forgepack.bundle-report/1", "out", "pass", "") == (
        report["schema"],
        report["out"],
        report["verify"]["verdict"],
        done.err,
    )


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_dry_run_writes_nothing(base: Path, here: Path, form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """--dry-run lists files, bytes and disk."""
    assert 0 == run(bundle_args(base, "out", "--dry-run", *form))
    assert f"drafter/{STEM}.json" in capsys.readouterr().out
    assert [] == list(here.iterdir())


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["bundle", "absent", "--target", "{base}/target", "--out", "o"], 2, "no such drafter folder"),
        (["bundle", "{base}/drafter", "--target", "absent", "--out", "o"], 2, "no such folder"),
        (["bundle", "{base}/drafter", "--target", "{base}/target", "--out", "deep/o"], 2, "parent folder"),
        (["bundle", "{base}/drafter", "--target", "{base}/target", "--out", "o", "--documents", "x"], 2, "documents"),
        (
            ["bundle", "{base}/drafter", "--target", "{base}/target", "--out", "o", "--upstream-id", "a/b"],
            2,
            "revision",
        ),
        (["bundle", "{base}/quant", "--target", "{base}/target", "--out", "o"], 4, "missing"),
        (["bundle", "{base}/drafter", "--target", "{base}/target", "--out", "o", "--depth", "header"], 2, "header"),
        (["verify"], 2, "name one thing to verify"),
        (["verify", "{base}/drafter", "--bundle", "{base}"], 2, "name one thing to verify"),
        (["verify", "--bundle", "x", "--hub", "a/b@c"], 2, "name one thing to verify"),
        (["verify", "{base}/drafter", "--target", "{base}/target", "--plain"], 2, "--plain"),
        (["verify", "--bundle", "{base}", "--target", "{base}/target"], 2, "holds its own target"),
        (["verify", "--bundle", "absent"], 2, "does not exist"),
        (["verify", "--bundle", "{base}"], 3, "no release"),
        (["verify", "--hub", "release"], 2, "REPO@COMMIT"),
    ],
)
def test_usage_errors_and_their_codes(
    base: Path, here: Path, args: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong command line is told in one sentence, with its code, and writes nothing."""
    filled = [text.replace("{base}", str(base)) for text in args]
    upstream = ["--upstream-revision", UPSTREAM.revision] if "--upstream-id" not in filled else []
    upstream = ["--upstream-id", UPSTREAM.id, *upstream] if upstream and args[0] == "bundle" else []
    assert code == run([*filled, "--profile", str(base / "profile.json"), *upstream])
    done = capsys.readouterr()
    assert words in done.err
    assert "" == done.out
    assert [] == list(here.iterdir())


def test_profile_without_upstream_asks_for_it(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a profile does not tell what the target was made from, the options must."""
    args = bundle_args(base)
    assert 2 == run(
        [arg for arg in args if arg not in ("--upstream-id", UPSTREAM.id, "--upstream-revision", UPSTREAM.revision)]
    )
    assert "--upstream-id" in capsys.readouterr().err


def test_existing_output_and_force(base: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An output that is there is a usage error without --force."""
    (here / "out").mkdir()
    assert 2 == run(bundle_args(base))
    assert "--force" in capsys.readouterr().err
    assert 0 == run(bundle_args(base, "out", "--force"))


def test_pair_that_does_not_match_is_exit_4(base: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bundle builds: parts that do not belong together are inputs of the wrong identity."""
    target = here / "target"
    shutil.copytree(base / "target", target)
    edit(target / "coreai/manifest.json", lambda raw: raw["taps"].reverse())
    args = [arg.replace(str(base / "target"), str(target)) for arg in bundle_args(base)]
    assert 4 == run(args)
    assert "TAP004" in capsys.readouterr().err
    assert not (here / "out").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and writes everywhere")
def test_read_only_folder_is_exit_5(base: Path, here: Path) -> None:
    """A folder that can't be written to is told as that."""
    here.chmod(0o555)
    try:
        assert 5 == run(bundle_args(base))
    finally:
        here.chmod(0o755)


def test_verify_bundle_passes_in_every_form(base: Path, released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole bundle passes at the default depth, and in each format of reports."""
    for form in ("text", "json", "sarif", "junit", "github"):
        assert 0 == run(verify_args(base, "--bundle", str(released), "--format", form, "--depth", "header"))
        out = capsys.readouterr().out
        assert "CTR045" in out or form in ("text", "github")
    assert 0 == run(verify_args(base, "--bundle", str(released)))
    assert "depth lineage" in capsys.readouterr().out


def test_verify_bundle_refuses_with_1_and_writes_its_report(
    base: Path, bundle: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finding is exit 1; the report is written beside, never into what is verified."""
    (bundle / "NOTICE").unlink()
    assert 1 == run(verify_args(base, "--bundle", str(bundle), "--depth", "hash", "--report", "json=r.json"))
    report = json.loads((here / "r.json").read_bytes())
    failed = [c["id"] for c in report["checks"] if c["status"] == "fail" and c["severity"] != "note"]
    assert ("fail", ["CTR045"]) == (report["verdict"], failed)
    assert 2 == run(verify_args(base, "--bundle", str(bundle), "--report", f"json={bundle / 'r.json'}"))
    assert "it is inside --bundle" in capsys.readouterr().err


def test_warning_of_a_staged_release_is_told(base: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What does not refuse a release is said while it is bundled."""
    shutil.copytree(base, here / "pair")
    (here / "pair/target/model/tokenizer_config.json").write_text('{"add_bos_token": true}')
    args = [arg.replace(str(base), str(here / "pair")) for arg in bundle_args(base)]
    assert 0 == run(args)
    assert "warning: TOK004" in capsys.readouterr().err


def test_file_that_nothing_binds_is_not_bundled(base: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What verify --bundle refuses is refused while it is staged."""
    shutil.copytree(base, here / "pair")
    (here / "pair/target/coreai/extra.json").write_text("{}")
    assert 4 == run([arg.replace(str(base), str(here / "pair")) for arg in bundle_args(base)])
    assert "CTR024" in capsys.readouterr().err


def test_verify_bundle_with_its_sources(base: Path, released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checkpoint and quantized drafter prove the bundle's package as they prove any other."""
    named = ["--checkpoint", str(base / "checkpoint"), "--quant", str(base / "quant"), "--format", "json"]
    assert 0 == run(verify_args(base, "--bundle", str(released), *named))
    checks = {c["id"]: c["status"] for c in json.loads(capsys.readouterr().out)["checks"]}
    assert ("pass", "pass", "pass") == (checks["WGT012"], checks["WGT013"], checks["CTR047"])


def test_plain_bundle(base: Path, bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--plain passes a target whose drafter was not downloaded."""
    shutil.rmtree(bare / "drafter")
    assert 1 == run(verify_args(base, "--bundle", str(bare), "--depth", "hash"))
    assert 0 == run(verify_args(base, "--bundle", str(bare), "--depth", "hash", "--plain"))
    assert "left out by --plain" in capsys.readouterr().out


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """Return an empty hub that HF_ENDPOINT names."""
    with LoopbackHub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def test_verify_hub(base: Path, released: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    """A published release passes at depth hash, by default; the report names repository and commit alone."""
    hub.add(REPO, COMMIT, released)
    assert 0 == run(verify_args(base, "--hub", f"{REPO}@{COMMIT}", "--format", "json"))
    report = json.loads(capsys.readouterr().out)
    assert ("pass", "hash") == (report["verdict"], report["depth"])
    assert [f"{REPO}@{COMMIT}"] == [item["path"] for item in report["inputs"].values()]


@pytest.mark.parametrize(
    ("name", "more", "code", "words"),
    [
        (f"{REPO}@main", [], 2, f"--hub {REPO}@{COMMIT}"),
        (f"{REPO}@{COMMIT[:7]}", [], 2, "full commit"),
        (f"{REPO}@{'0' * 40}", [], 6, "no such commit"),
        (f"tests/absent@{COMMIT}", [], 6, "does not exist"),
        (f"{REPO}@{COMMIT}", ["--depth", "lineage"], 2, "verify --bundle"),
    ],
)
def test_verify_hub_errors(
    base: Path,
    released: Path,
    hub: LoopbackHub,
    capsys: pytest.CaptureFixture[str],
    *,
    name: str,
    more: list[str],
    code: int,
    words: str,
) -> None:
    """Names that are no commit are usage errors, what the hub does not have is exit 6."""
    hub.add(REPO, COMMIT, released)
    assert code == run(verify_args(base, "--hub", name, *more))
    assert words in capsys.readouterr().err


def test_configured_depth_does_not_keep_the_hub_from_being_looked_at(
    base: Path, released: Path, hub: LoopbackHub, here: Path
) -> None:
    """A depth from the file is for bundles that are here: at the hub the deepest possible one is taken."""
    (here / "forgepack.toml").write_text('[verify]\ndepth = "lineage"\n')
    hub.add(REPO, COMMIT, released)
    assert 0 == run(verify_args(base, "--hub", f"{REPO}@{COMMIT}"))


def test_hub_that_is_down_is_exit_6(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network is no verdict."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    with LoopbackHub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
    assert 6 == run(verify_args(base, "--hub", f"{REPO}@{COMMIT}"))


def test_schemas_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """What the release files look like can be asked by name."""
    assert 0 == run(["schema", "--list"])
    listed = set(capsys.readouterr().out.split())
    assert {"release", "release_record", "qwen_source", "build_lock", "forgepack_toml"} <= listed


def test_export_name_is_the_manifests(released: Path) -> None:
    """The export lies under the name by which sidecar and manifest know it."""
    assert [EXPORT] == [p.name for p in (released / "export").iterdir()]
