"""Adopted checkpoints, traces without identity and pinned files: told wherever the package goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.lock import LOCK_NAME, read_lock
from forgepack.artifacts.locked import require_locked
from forgepack.cli.main import run
from forgepack.errors import CorruptError, IdentityError
from forgepack.profile import Profile, parse_profile
from forgepack.release.bundle.make import make_bundle
from tests.release.bench import bundle_inputs, judged
from tests.verify.conftest import build_pair
from tests.verify.factory import PROFILE, lock_checkpoint, report_quant, tiny_profile, write_json
from tests.verify.running import check_of, told, verified
from tests.verify.sabotage import put

SIDECAR = "drafter/dflash2_lut4_gptq.json"
METADATA = "drafter/dflash2_lut4_gptq.aimodel/metadata.json"
CLEAN = ("pass", "pass", "pass")


def pinning(root: Path, **changes: str) -> Profile:
    """Return the tests' profile with the digests of a checkpoint's files pinned, some of them changed."""
    names = PROFILE["hub"]["files"]
    sha256 = {name: hash_file(root / "checkpoint" / name)[1] for name in names} | changes
    return parse_profile({**PROFILE, "schema": "forgepack.profile/2", "hub": {**PROFILE["hub"], "sha256": sha256}})


@pytest.fixture(scope="session")
def unproven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a pair from an adopted checkpoint, by traces without identity: each step does what it always does."""
    import tests.verify.conftest as building

    root = tmp_path_factory.mktemp("unproven") / "pair"

    def adopted(folder: Path, checkpoint: Path, target: Path, profile: Profile) -> None:
        lock_checkpoint(checkpoint, profile, adopted=True)
        report_quant(folder, checkpoint, target, profile)
        put("report.json", "inputs", "calibration", "bound", value=False)(folder)
        put("report.json", "inputs", "held_out", "bound", value=False)(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "report_quant", adopted)
        return build_pair(root, tiny_profile())


def states(root: Path, profile: Profile | None = None, **options: Any) -> tuple[str, ...]:
    """Return how SRC040 to SRC042 end on a pair."""
    report = verified(root, profile=profile or tiny_profile(), **options)
    return tuple(check_of(report, ident).status for ident in ("SRC040", "SRC041", "SRC042"))


def test_a_proven_pair_says_nothing(base: Path) -> None:
    """Fetched and bound sources pass all three rules, also where the profile pins the files."""
    assert CLEAN == states(base)
    emitted_with_pins = verified(base, profile=pinning(base))
    assert "pass" == check_of(emitted_with_pins, "SRC042").status


def test_unproven_sources_stay_visible_without_them(unproven: Path) -> None:
    """The package alone tells both, as warnings that --strict refuses."""
    report = verified(unproven)
    assert "pass" == report.verdict
    assert "never compared with the hub's" in told(report, "SRC040")
    assert ("warning", 2) == (check_of(report, "SRC041").severity, check_of(report, "SRC041").count)
    args = ["verify", str(unproven / "drafter"), "--target", str(unproven / "target"), "--depth", "header"]
    args += ["--profile", str(unproven / "profile.json")]
    assert 0 == run(args)
    assert 1 == run([*args, "--strict"])


def test_a_bundle_tells_them_in_its_texts(unproven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """README and MODIFICATIONS of the release say what is not proven, bundling and verifying warn, inspect tells."""
    out = tmp_path / "release"
    result = make_bundle(bundle_inputs(unproven), out, profile=tiny_profile())
    assert {"SRC040", "SRC041"} <= {check.id for check in result.report.failed("warning")}
    for name in ("README.md", "MODIFICATIONS.md"):
        text = (out / name).read_text()
        assert "never compared with the hub's" in text, name
        assert "traces that calibrated the drafter do not state" in text, name
    assert {"SRC040", "SRC041"} <= {check.id for check in judged(out).failed("warning")}
    assert 0 == run(["inspect", str(out / "drafter")])
    assert "never compared with the hub's" in capsys.readouterr().out


def test_a_proven_release_has_no_such_lines(base: Path, tmp_path: Path) -> None:
    """Nothing is said of what is proven."""
    make_bundle(bundle_inputs(base), tmp_path / "release", profile=tiny_profile())
    assert "Not proven" not in (tmp_path / "release/README.md").read_text()


@pytest.mark.parametrize(
    ("file", "keys", "value"),
    [
        (SIDECAR, ("forgepack", "checkpoint", "adopted"), False),
        (SIDECAR, ("forgepack", "quantization", "calibration", "traces", "bound"), True),
        (SIDECAR, ("forgepack", "quantization", "calibration", "held_out", "bound"), True),
        (f"checkpoint/{LOCK_NAME}", ("adopted",), False),
        (f"checkpoint/{LOCK_NAME}", ("files", 3, "evidence"), "client"),
        (f"checkpoint/{LOCK_NAME}", ("files", 3, "evidence"), "hub"),
        (f"checkpoint/{LOCK_NAME}", ("files", 3, "evidence"), None),
        ("quant/report.json", ("inputs", "calibration", "bound"), True),
        ("quant/report.json", ("inputs", "checkpoint", "adopted"), False),
    ],
)
def test_what_is_edited_away_is_refused(
    unproven_copy: Path, file: str, keys: tuple[str | int, ...], value: Any
) -> None:
    """Adopted to fetched, unbound to bound, more evidence than there was: a rule of SRC refuses the edited place."""
    put(file, *keys, value=value)(unproven_copy)
    report = verified(unproven_copy, sources=True)
    refusing = {check.id for check in report.failed("error")}
    assert any(ident.startswith("SRC") for ident in refusing), refusing


@pytest.fixture
def unproven_copy(unproven: Path, tmp_path: Path) -> Path:
    """Return a copy to edit."""
    import shutil

    return Path(shutil.copytree(unproven, tmp_path / "pair"))


def test_pinned_files_prove_an_adopted_checkpoint(unproven: Path) -> None:
    """Where every file is pinned the digests are the proof: no warning; one file that is not pinned keeps it."""
    assert "pass" == states(unproven, pinning(unproven))[0]
    hub = {**PROFILE["hub"], "sha256": {"config.json": hash_file(unproven / "checkpoint/config.json")[1]}}
    some = parse_profile({**PROFILE, "schema": "forgepack.profile/2", "hub": hub})
    assert "fail" == states(unproven, some)[0]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "LICENSE"])
def test_another_file_than_the_pinned_one_is_refused(base: Path, name: str) -> None:
    """By verify with or without the checkpoint, and by every command that reads or takes a checkpoint (exit 4)."""
    profile = pinning(base, **{name: "0" * 64})
    assert "fail" == states(base, profile)[2]
    assert "fail" == states(base, profile, sources=True)[2]
    with pytest.raises(IdentityError, match="not the file that the profile pins") as caught:
        require_locked(base / "checkpoint", profile)
    assert ("pinned", 4) == (caught.value.code, caught.value.exit_code)


def test_adopting_another_file_than_the_pinned_one_is_refused(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, and what is pinned and found is named."""
    raw = {**PROFILE, "schema": "forgepack.profile/2", "hub": {**PROFILE["hub"], "sha256": {"NOTICE": "1" * 64}}}
    write_json(tmp_path / "pins.json", raw)
    out = tmp_path / "out"
    args = ["fetch", "--profile", str(tmp_path / "pins.json"), "--out", str(out), "--adopt"]
    assert 4 == run([*args, str(base / "checkpoint"), "--force"])
    assert "1" * 64 in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    "sha256", [{"other.bin": "0" * 64}, {"NOTICE": "0" * 63}, {"NOTICE": "A" * 64}, {"NOTICE": None}, [], "x"]
)
def test_a_pin_that_pins_nothing_is_an_error(sha256: Any) -> None:
    """A typing error in a pin never leaves a file unpinned in silence."""
    with pytest.raises(CorruptError):
        parse_profile({**PROFILE, "schema": "forgepack.profile/2", "hub": {**PROFILE["hub"], "sha256": sha256}})


def test_a_profile_of_version_1_keeps_its_digest() -> None:
    """Packages name their profile by digest: what reads it in today's form does not change it."""
    profile = tiny_profile()
    assert {} == dict(profile.hub.sha256)
    assert profile.digest != parse_profile(json.loads(json.dumps({**PROFILE, "name": "x"}))).digest
    assert not profile.hub.pins_all


def test_the_lock_tells_its_evidence(unproven: Path) -> None:
    """The note on an adopted lock repeats, file by file, what the client's records said."""
    report = verified(unproven, sources=True)
    assert "model.safetensors: no record" in check_of(report, "SRC007").findings[0].message
    assert {"none"} == {file.evidence for file in read_lock(unproven / "checkpoint").files}


@pytest.mark.parametrize(
    ("date", "status"),
    [
        ("19800101T000000Z", "pass"),
        ("20261130T234558Z", "pass"),
        ("yesterday", "fail"),
        ("20261330T000000Z", "fail"),
        ("2026-11-30", "fail"),
        (0, "fail"),
        (None, "fail"),
    ],
)
def test_a_creation_date_is_a_date(pair: Path, date: Any, status: str) -> None:
    """Any day and time in UTC is one; a word, another form or a number is a warning, for it binds nothing."""
    put(METADATA, "creationDate", value=date)(pair)
    report = verified(pair)
    assert (status, "pass") == (check_of(report, "CTR072").status, report.verdict)
