"""Emission judges its inputs by verification's rules, under the same ids, before it reads anything whole."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.target import locate_target
from forgepack.canonical import dump_canonical
from forgepack.cli.main import run
from forgepack.verify.emission import InputPaths, open_inputs, warnings_of
from tests.verify.factory import EXPORT, tiny_profile
from tests.verify.sabotage import MANIFEST, TARGET_CONFIG, both, bytes_of, drop, edit, put, remove, tensor, write

CHUNK = "target/coreai/chunk_L00-03.aimodel"
QUANT = "quant/drafter_quant.safetensors"
Change = Callable[[Path], object]


def emit(pair: Path, *options: str) -> int:
    """Emit the pair's package into another folder, as a user does."""
    args = [f"--checkpoint={pair / 'checkpoint'}", f"--target={pair / 'target'}", f"--out={pair / 'new'}"]
    return run(["-q", "emit", str(pair / "quant"), *args, f"--profile={pair / 'profile.json'}", *options])


def check(pair: Path, *options: str) -> int:
    """Verify the package that was emitted, as a user does."""
    args = [f"--target={pair / 'target'}", f"--quant={pair / 'quant'}", f"--checkpoint={pair / 'checkpoint'}"]
    return run(["-q", "verify", str(pair / "new"), *args, f"--profile={pair / 'profile.json'}", *options])


def reseal(root: Path) -> None:
    """Bring the report's digest of the quantized tensors up to date, as one who has the tool would."""
    path = root / "quant/report.json"
    report = json.loads(path.read_bytes())
    size, sha256 = hash_file(root / QUANT)
    report["output"] |= {"bytes": size, "sha256": sha256}
    path.write_bytes(dump_canonical(report))


def rename_export(root: Path) -> None:
    """Name the export by a letter with an accent: composed in the manifest, decomposed on disk."""
    put(MANIFEST, "export", value=unicodedata.normalize("NFC", "tiny_e\u0301"))(root)
    folder = root / "target/export" / EXPORT
    folder.rename(folder.with_name(unicodedata.normalize("NFD", "tiny_e\u0301")))


def forge(name: str, change: Callable[[Any], Any]) -> Change:
    """Return a sabotage that edits a quantized tensor and brings the report up to date."""
    return both(tensor(QUANT, name, change), reseal)


def nudged(codes: Any) -> Any:
    """Return codes of which one is another by one."""
    return np.where(np.arange(codes.size).reshape(codes.shape) == 9, codes ^ 1, codes)


def other_layer(root: Path) -> None:
    """Put another layer's indices in place of a matrix's."""
    name = "layers.{}.self_attn.k_proj.weight.idx"
    other = np.array(read_safetensors(root / QUANT).array(name.format(1)))
    tensor(QUANT, name.format(0), lambda _: other)(root)


REFUSED: dict[str, tuple[Change, str]] = {
    "a chunk is missing": (remove(CHUNK), "PKG001"),
    "a chunk is garbage": (write(f"{CHUNK}/main.mlirb", b"garbage"), "FMT011"),
    "a chunk's hash is garbage": (write(f"{CHUNK}/main.hash", b"garbage"), "PKG004"),
    "a chunk's hash is another's": (write(f"{CHUNK}/main.hash", bytes(32)), "PKG013"),
    "a config contradicts itself": (put(TARGET_CONFIG, "hidden_size", value=77), "CTR012"),
    "a field of another type": (put(MANIFEST, "T", value=8.0), "CTR016"),
    "the export's name in another Unicode form": (rename_export, "CTR005"),
    "taps exchanged": (edit(MANIFEST, lambda raw: raw.update(taps=raw["taps"][::-1])), "TAP"),
    "one row of a matrix negated": (
        forge("layers.0.mlp.up_proj.weight.scale", lambda s: np.r_[s[:3], -s[3:4], s[4:]]),
        "WGT030",
    ),
    "two scales exchanged": (forge("fc.weight.scale", lambda s: np.r_[s[1::-1], s[2:]]), "WGT030"),
    "one INT8 code off by one": (forge("layers.1.mlp_conv.kernel_projection.weight.int8", nudged), "WGT031"),
    "another matrix's indices": (both(other_layer, reseal), "WGT030"),
    "the report contradicts the tensors": (
        edit("quant/report.json", lambda raw: raw["recipe"].update(variant="lut4_other")),
        "SRC012",
    ),
    "fetched by the lock, adopted by the report": (
        edit("quant/report.json", lambda raw: raw["inputs"]["checkpoint"].update(adopted=True)),
        "SRC013",
    ),
    "a report of today under the older version": (
        put("quant/report.json", "schema", value="forgepack.quant_report/1"),
        "SRC010",
    ),
    "no word of held-out sequences": (drop("quant/report.json", "inputs", "held_out"), "SRC010"),
    "another damping": (put("quant/report.json", "recipe", "gptq", "damping", value=0.05), "SRC012"),
    "a step that this recipe has not": (put("quant/report.json", "recipe", "smoothing", value=0.5), "SRC012"),
    "no recipe of the integers": (drop("quant/report.json", "recipe", "int8"), "SRC012"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_emit_refuses_what_verify_refuses(pair: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 4 and the rule's id, in a dry run, too; nothing is written."""
    change, rule = REFUSED[name]
    change(pair)
    assert 4 == emit(pair, "--dry-run")
    dry = capsys.readouterr().err
    assert 4 == emit(pair)
    assert rule in dry
    assert rule in capsys.readouterr().err
    assert not (pair / "new").exists()


def crlf(root: Path) -> None:
    """Write the tokenizer again with other line ends; the report knows the meaning."""
    from forgepack.artifacts.tokenizer import read_tokenizer

    target = root / "target"
    meaning = read_tokenizer(target / "model").semantic_sha256
    path = root / "quant/report.json"
    report = json.loads(path.read_bytes())
    report["inputs"]["target"]["tokenizer_semantic_sha256"] = meaning
    path.write_bytes(dump_canonical(report))
    bytes_of("target/model/tokenizer.json", lambda data: data.replace(b"\n", b"\r\n"))(root)


TAKEN: dict[str, Change] = {
    "a tokenizer of equal meaning in other bytes": crlf,
    "a text beside the packages": write("target/coreai/README.md", b"read me"),
    "a text beside the export": write(f"target/export/{EXPORT}/notes.txt", b"notes"),
    "a compiled package": both(
        lambda root: (root / "target/coreai/chunk.aimodelc").mkdir(),
        write("target/coreai/chunk.aimodelc/model", b"compiled"),
        edit(MANIFEST, lambda raw: raw["chunks"][0].update(compiled="chunk.aimodelc")),
    ),
    "junk of a file manager": write("target/coreai/.DS_Store", b"junk"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_emit_takes_verify_takes(pair: Path, name: str) -> None:
    """Every file of the target that emission binds is one that verification hashes."""
    TAKEN[name](pair)
    assert (0, 0) == (emit(pair), check(pair))


def test_a_bound_file_that_is_gone_is_told_from_one_that_is_there(pair: Path) -> None:
    """A file beside the packages that was bound and then removed or edited is refused."""
    readme = pair / "target/coreai/README.md"
    readme.write_bytes(b"read me")
    assert 0 == emit(pair)
    readme.write_bytes(b"read me, too")
    assert 1 == check(pair)
    readme.unlink()
    assert 1 == check(pair)


def test_links_need_the_option_in_both(pair: Path) -> None:
    """A hub's cache is made of links: emit and verify take it under the same option alone."""
    real = pair / "target/model/tokenizer.json"
    shutil.move(real, pair / "blob")
    real.symlink_to(pair / "blob")
    assert 4 == emit(pair)
    assert (0, 0) == (emit(pair, "--allow-links"), check(pair, "--allow-links"))


def test_a_warning_of_verification_is_one_of_emission(pair: Path) -> None:
    """A release root without its licence is warned of; the inputs are taken."""
    (pair / "target/LICENSE").unlink()
    target = locate_target(pair / "target")
    paths = InputPaths(quant=pair / "quant", checkpoint=pair / "checkpoint", target=target, root=pair / "target")
    _, report = open_inputs(paths, pair / "new", tiny_profile())
    assert ["LIC006"] == [line.split()[1] for line in warnings_of(report)]
