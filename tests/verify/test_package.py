"""PKG and LIC: the package is complete, a Core AI package, the sidecar's own, and carries its licence."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from forgepack.errors import MissingError, NothingToVerifyError, UsageError
from tests.verify.running import by_name, check_of, explain_all, failed, refuse, roots, told, verified
from tests.verify.sabotage import (
    ASSET,
    CONFIG,
    MANIFEST,
    SIDECAR,
    STEM,
    Case,
    Change,
    both,
    bytes_of,
    drop,
    edit,
    put,
    remove,
    write,
)

PROGRAM = f"{ASSET}/main.mlirb"
METADATA = f"{ASSET}/metadata.json"
COREML = b'{"quant": "lut4", "policy": "rtn", "size_gb": 0.9}'


def _rename(old: str, new: str) -> Change:
    def apply(root: Path) -> None:
        (root / old).rename(root / new)

    return apply


def _rename_stem(stem: str) -> Change:
    return both(_rename(ASSET, f"drafter/{stem}.aimodel"), _rename(SIDECAR, f"drafter/{stem}.json"))


def _coreml_folder(root: Path) -> None:
    shutil.rmtree(root / ASSET)
    data = root / ASSET / "Data/com.apple.CoreML"
    data.mkdir(parents=True)
    (data / "model.mlmodel").write_bytes(b"\x08\x09")
    (root / ASSET / "Manifest.json").write_text("{}")


def _flip(place: int) -> Change:
    def apply(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[place] ^= 1
        return bytes(changed)

    return bytes_of(PROGRAM, apply)


def _rehash(root: Path) -> None:
    digest = hashlib.sha256((root / PROGRAM).read_bytes()).digest()
    (root / ASSET / "main.hash").write_bytes(digest)


CASES = [
    Case(name="no sidecar", change=remove(SIDECAR), roots=("PKG001",), says=(f"{STEM}.json",)),
    Case(name="no asset", change=remove(ASSET), roots=("PKG001",)),
    Case(name="no selector", change=remove("drafter/selector.safetensors"), roots=("PKG001",)),
    Case(name="no source record", change=remove("drafter/DFLASH2_SOURCE.json"), roots=("PKG001",)),
    Case(name="no program", change=remove(PROGRAM), roots=("PKG001",), says=("main.mlirb",)),
    Case(name="no hash", change=remove(f"{ASSET}/main.hash"), roots=("PKG001",)),
    Case(name="no metadata", change=remove(METADATA), roots=("PKG001",)),
    Case(name="no manifest", change=remove(MANIFEST), roots=("PKG001",)),
    Case(name="no head package", change=remove("target/coreai/head_T8.aimodel"), roots=("PKG001",)),
    Case(name="no chunk", change=remove("target/coreai/chunk_L04-07.aimodel"), roots=("PKG001",)),
    Case(name="no tokenizer", change=remove("target/model/tokenizer.json"), depth="hash", roots=("PKG001",)),
    Case(name="no embedding", change=remove("target/model/embed_tokens_fp16.npy"), roots=("PKG001",)),
    Case(name="asset is a file", change=both(remove(ASSET), write(ASSET, b"x")), roots=("PKG002",)),
    Case(name="compiled asset", change=_rename(ASSET, f"drafter/{STEM}.aimodelc"), roots=("PKG003",)),
    Case(name="hash of 31 bytes", change=bytes_of(f"{ASSET}/main.hash", lambda b: b[:31]), roots=("PKG004",)),
    Case(name="hash of 33 bytes", change=bytes_of(f"{ASSET}/main.hash", lambda b: b + b"x"), roots=("PKG004",)),
    Case(name="hash in hex", change=bytes_of(f"{ASSET}/main.hash", lambda b: b.hex().encode()), roots=("PKG004",)),
    Case(name="asset version", change=put(METADATA, "assetVersion", value="3.0"), roots=("PKG005",)),
    Case(name="Core ML sidecar", change=write(SIDECAR, COREML), roots=("PKG006",), says=("quant, policy, size_gb",)),
    Case(name="Core ML folder as asset", change=_coreml_folder, roots=("PKG006",), says=("Manifest.json",)),
    Case(
        name="Core ML package of the same stem",
        change=both(_coreml_folder, _rename(ASSET, f"drafter/{STEM}.mlpackage"), write(SIDECAR, COREML)),
        roots=("PKG006",),
        says=(f"{STEM}.mlpackage",),
    ),
    Case(
        name="Core ML package beside",
        change=lambda r: (r / f"drafter/{STEM}.mlpackage").mkdir(),
        roots=("PKG006",),
    ),
    Case(
        name="headless build",
        change=both(
            _rename(ASSET, f"drafter/{STEM}_nohead.aimodel"), _rename(SIDECAR, f"drafter/{STEM}_nohead.json")
        ),
        roots=("PKG007",),
    ),
    Case(
        name="another stem",
        change=_rename_stem("dflash2_fp16"),
        roots=("PKG008",),
    ),
    Case(
        name="a second asset",
        change=lambda r: shutil.copytree(r / ASSET, r / "drafter/other.aimodel"),
        roots=("PKG008",),
    ),
    Case(
        name="headless entries",
        change=edit(SIDECAR, lambda raw: raw["entries"]["draft"]["outputs"].remove("logits")),
        roots=("PKG009",),
        says=("no output named logits",),
    ),
    Case(name="no prefill entry", change=drop(SIDECAR, "entries", "ctx64"), roots=("PKG009",)),
    Case(
        name="inputs in another order",
        change=edit(SIDECAR, lambda raw: raw["entries"]["draft"]["inputs"].reverse()),
        roots=("PKG009",),
        says=("another order",),
    ),
    Case(name="weights beside", change=write("drafter/extra.safetensors", b"x"), roots=("PKG010",)),
    Case(name="a file in the asset", change=write(f"{ASSET}/weights.bin", b"x"), roots=("PKG011",)),
    Case(name="program flipped", change=_flip(-3000), depth="hash", roots=("PKG012",)),
    Case(name="program flipped, hash again", change=both(_flip(-3000), _rehash), depth="hash", roots=("PKG015",)),
    Case(
        name="target program flipped",
        change=bytes_of("target/coreai/chunk_L00-03.aimodel/main.mlirb", lambda b: b[:-1] + bytes([b[-1] ^ 1])),
        depth="hash",
        roots=("PKG013",),
    ),
    Case(name="metadata edited", change=put(METADATA, "author", value="someone"), roots=("PKG015",)),
    Case(name="metadata without identity", change=drop(METADATA, "creatorDefinedMetadata"), roots=("PKG015",)),
    Case(
        name="calibration's identity in the sidecar",
        change=put(SIDECAR, "forgepack", "quantization", "calibration", "traces", "traces_sha256", value="0" * 64),
        roots=("PKG022",),
    ),
    Case(name="name of the export", change=put(SIDECAR, "export", value="other"), roots=("SRC030",)),
    Case(name="size in the sidecar", change=put(SIDECAR, "mb", value=7), roots=("PKG016",)),
    Case(name="no licence", change=remove("drafter/LICENSE"), roots=("LIC001",)),
    Case(name="empty licence", change=write("drafter/LICENSE", b" \n"), roots=("LIC001",)),
    Case(name="no notice", change=remove("drafter/NOTICE"), roots=("LIC002",)),
    Case(name="empty notice", change=write("drafter/NOTICE", b""), roots=("LIC002",)),
    Case(name="another licence", change=write("drafter/LICENSE", b"All rights reserved"), roots=("LIC003",)),
    Case(
        name="edited notice",
        change=write("drafter/NOTICE", b"Somebody else made this.\n"),
        sources=True,
        roots=("LIC004",),
    ),
    Case(
        name="edited notice, no checkpoint at hand",
        change=write("drafter/NOTICE", b"Somebody else made this.\n"),
        depth="hash",
        roots=("PKG014",),
    ),
    Case(name="licence in the asset", change=put(METADATA, "license", value="MIT"), roots=("LIC005",)),
]


@by_name(CASES)
def test_faults_of_the_package_are_refused(pair: Path, case: Case) -> None:
    """Each fault of the package has its own rule, and nothing else stands as a cause."""
    refuse(pair, case)


@pytest.mark.parametrize("damage", ["cut", "zeroed", "noise"])
def test_damaged_program_is_a_finding(pair: Path, damage: str) -> None:
    """A program on which Core AI's reader dies is refused by rule; the verifier lives on."""
    data = (pair / PROGRAM).read_bytes()
    half = len(data) // 2
    broken = {"cut": data[:half], "zeroed": data[:8] + bytes(len(data) - 8), "noise": data[:half] + data[:half]}
    (pair / PROGRAM).write_bytes(broken[damage])
    _rehash(pair)
    report = verified(pair, "lineage")
    assert ("fail", 1) == (report.verdict, report.exit_code)
    assert {"PKG015", "PKG017"} <= failed(report), explain_all(report)
    assert "PKG017" == check_of(report, "WGT011").cause


def test_sidecar_of_another_pair(pair: Path, other: Path) -> None:
    """A sidecar copied from another pair is caught from both sides; all that follows hangs below."""
    shutil.copy(other / SIDECAR, pair / SIDECAR)
    report = verified(pair, "hash")
    assert ["PKG015"] == roots(report), explain_all(report)
    assert "creatorDefinedMetadata" in told(report, "PKG015")


def test_changed_date_passes(pair: Path) -> None:
    """Core AI stamps the date when it saves: a changed date alone is no fault at any depth."""
    put(METADATA, "creationDate", value="20300101T000000Z")(pair)
    assert "pass" == verified(pair, "hash").verdict


def test_missing_target_licence_warns(pair: Path) -> None:
    """Policy of the target are asked for, too, but their absence only warns."""
    remove("target/LICENSE")(pair)
    report = verified(pair)
    assert ("pass", "fail") == (report.verdict, check_of(report, "LIC006").status)


def test_documents_beside_the_package_pass(pair: Path) -> None:
    """A README, pictures and a .gitkeep added later are no part of the contract."""
    for name in ("README.md", "plot.png", ".gitkeep"):
        write(f"drafter/{name}", b"")(pair)
    assert "pass" == verified(pair, "hash").verdict


def test_folder_without_a_package(pair: Path) -> None:
    """A folder that holds no part of a package is nothing to verify (exit 3)."""
    shutil.rmtree(pair / "drafter")
    (pair / "drafter").mkdir()
    (pair / CONFIG).write_text("{}")
    with pytest.raises(NothingToVerifyError):
        verified(pair)


def test_target_without_parts(pair: Path) -> None:
    """A target folder with neither model nor build is another folder: exit 4, as in every other command."""
    with pytest.raises(MissingError, match="release root"):
        verified(pair, named={"target": pair / "quant"})


@pytest.mark.parametrize("name", ["drafter", "target", "checkpoint", "quant"])
def test_paths_that_do_not_exist(pair: Path, name: str) -> None:
    """A path that does not exist is a matter of usage (exit 2), never a finding."""
    with pytest.raises(UsageError):
        verified(pair, named={name: pair / "nowhere"})
