"""Kinds of TABLE.md in files and forms that the list does not name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from forgepack.cli.main import run
from tests.cli.test_verify import arguments
from tests.verify.running import by_name, check_of, explain_all, failed, roots, told, verified
from tests.verify.sabotage import ASSET, CONFIG, HEAD, MANIFEST, SIDECAR, Case, edit, link, put, write

DFLASH = "dflash_config"
TAPS = (CONFIG, DFLASH, "target_layer_ids")
SELECTOR = "drafter/selector.safetensors"
EMBEDDING = "target/model/embed_tokens_fp16.npy"
TOKENIZER = "target/model/tokenizer.json"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 123456\n"
# Files that are read whole: any of them may be a pointer, for a repository may keep all of them in LFS.
SMALL = (CONFIG, SIDECAR, MANIFEST, TOKENIZER, "drafter/LICENSE", f"{ASSET}/metadata.json", f"{ASSET}/main.hash")
BINARY = (SELECTOR, HEAD, EMBEDDING, f"{ASSET}/main.mlirb")


@pytest.mark.parametrize("file", SMALL)
def test_pointer_in_place_of_any_small_file(pair: Path, file: str) -> None:
    """Row 43: a pointer is told as one wherever it stands, with the digest that it declares."""
    write(file, POINTER)(pair)
    report = verified(pair, "hash")
    assert "FMT010" in roots(report), explain_all(report)
    assert "ab" * 32 in told(report, "FMT010")


@pytest.mark.parametrize("file", BINARY)
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"Entry not found", "a text: 'Entry not found'"),
        (b'{"error":"Repository not found"}', "Repository not found"),
        (b"/annex/objects/SHA256E-s123--" + b"ab" * 32, "/annex/objects"),
        (b"x" * 257 + b"ustar\x0000" + bytes(250), "a tar archive"),
        (b"\x89HDF\r\n\x1a\n" + bytes(90), "an HDF5 file"),
        (b"\x28\xb5\x2f\xfd" + bytes(90), "a zstd file"),
    ],
    ids=["text", "error as JSON", "annex", "tar", "HDF5", "zstd"],
)
def test_what_stands_in_place_of_weights(pair: Path, file: str, data: bytes, words: str) -> None:
    """Row 44: an error's text and foreign archives are told as what they are, in every binary format."""
    write(file, data)(pair)
    report = verified(pair)
    assert "FMT011" in roots(report), explain_all(report)
    assert words in told(report, "FMT011")


@pytest.mark.parametrize("name", ["main.mlirb", "main.hash", "metadata.json"])
def test_link_inside_an_asset_is_not_followed(pair: Path, name: str) -> None:
    """Row 53: nothing of a file that a link inside an asset leads to is read, or told."""
    secret = pair / "secret"
    secret.write_text('{"assetVersion": "swordfish"}')
    link(f"{ASSET}/{name}", str(secret))(pair)
    report = verified(pair, "hash")
    assert "PATH002" in roots(report), explain_all(report)
    assert "swordfish" not in explain_all(report)
    assert {"not-evaluated"} == {check_of(report, ident).status for ident in ("PKG012", "PKG015")}


@pytest.mark.parametrize("name", ["chat_template.jinja", "chat_template.json"])
def test_template_in_a_file_of_its_own(pair: Path, name: str) -> None:
    """Row 23: a template beside tokenizer_config.json is taken before the one in it, so it counts as the template."""
    (pair / "target/model" / name).write_text('{"chat_template": "{{ other }}"}')
    report = verified(pair, "hash")
    assert ("pass", "fail") == (report.verdict, check_of(report, "TOK003").status), explain_all(report)


FORMS = [
    Case(
        name="taps as texts", change=put(CONFIG, DFLASH, "target_layer_ids", value=["1", "3", "6"]), roots=("TAP001",)
    ),
    Case(
        name="taps with fractions",
        change=put(*TAPS, value=[1.0, 3.0, 6.0]),
        roots=("TAP001",),
    ),
    Case(name="taps with true", change=put(*TAPS, value=[True, 3, 6]), roots=("TAP001",)),
    Case(name="taps outside", change=put(CONFIG, "target_layer_ids", value=[2, 4, 7]), roots=("CTR011",)),
    Case(name="mask with a fraction", change=put(CONFIG, DFLASH, "mask_token_id", value=42.0), roots=("VOC003",)),
    Case(name="mask beyond 64 bits", change=put(CONFIG, DFLASH, "mask_token_id", value=1 << 70), roots=("VOC003",)),
    Case(name="a width with a fraction", change=put(CONFIG, "hidden_size", value=32.0), roots=("CTR010",)),
    Case(
        name="one chunk twice", change=edit(MANIFEST, lambda r: r["chunks"].append(r["chunks"][0])), roots=("CTR015",)
    ),
    Case(
        name="threads with a fraction",
        change=put(SIDECAR, "forgepack", "runtime", "host_threads", value=1.0),
        roots=("CTR009",),
    ),
    Case(
        name="megabytes with a fraction",
        change=edit(SIDECAR, lambda r: r.update(mb=float(r["mb"]))),
        roots=("CTR002",),
    ),
]


@by_name(FORMS)
def test_other_forms_of_a_value(pair: Path, case: Case) -> None:
    """Rows 1, 6, 8, 10, 11, 71: a number in another JSON type is another value, for not every reader takes it."""
    case.change(pair)
    report = verified(pair)
    assert set(case.roots) <= failed(report), explain_all(report)


def test_sizes_with_a_fraction(pair: Path) -> None:
    """Row 50: 8.0 bytes are not 8 bytes in any record of the sidecar."""

    def change(raw: dict[str, Any]) -> None:
        for record in raw["forgepack"]["package"]["files"].values():
            record.update({key: float(value) for key, value in record.items() if key == "bytes"})

    edit(SIDECAR, change)(pair)
    assert {"PKG014", "CTR030"} <= failed(verified(pair, "hash"))


@pytest.mark.parametrize("form", ["nfc and nfd", "letter case", "a dot at the end", "a device of Windows"])
def test_names_that_another_system_confuses(pair: Path, form: str) -> None:
    """Row 55: names that are one file elsewhere, or none at all, are refused here."""
    names = {
        "nfc and nfd": ["caf\u00e9.md", "cafe\u0301.md"],
        "letter case": ["Notes.md", "NOTES.md"],
        "a dot at the end": ["notes.md."],
        "a device of Windows": ["con.md"],
    }[form]
    for name in names:
        (pair / "drafter" / name).write_bytes(b"")
    assert {"PATH004", "PATH005"} & failed(verified(pair))


def test_a_file_in_place_of_a_folder(pair: Path) -> None:
    """Row 66: what lies below a file is told to be there no more than the folder is."""
    shutil.rmtree(pair / "target/model")
    (pair / "target/model").write_bytes(b"x")
    report = verified(pair)
    assert ["PKG001"] == roots(report)
    assert "a file stands in place of its folder" in told(report, "PKG001")


def test_a_directory_in_place_of_every_file(pair: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Row 54: a folder of a file's name is refused, at the command line with 1."""
    for file in (CONFIG, SELECTOR, "drafter/LICENSE", HEAD):
        shutil.copy(pair / file, pair / "kept")
        (pair / file).unlink()
        (pair / file).mkdir()
        assert 1 == run(arguments(pair, "header", "--format", "json"))
        report = json.loads(capsysbinary.readouterr().out)
        assert {"fail"} == {check["status"] for check in report["checks"] if check["id"] == "PATH003"}
        (pair / file).rmdir()
        shutil.copy(pair / "kept", pair / file)
