"""Programs of other people, run on what this tool wrote; skipped where one is not installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from forgepack.artifacts.safetensors_file import read_safetensors
from forgepack.artifacts.tokenizer import read_tokenizer
from forgepack.miniature.data import find_miniature
from tests.verify.running import explain_all, verified
from tests.verify.sabotage import ASSET, HEAD, SIDECAR

_GROUP = "is not installed; pip install --group clients brings it"


def program(name: str) -> str:
    """Return the path of a client beside this Python or on the PATH; skip the test without it."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which(name, path=os.pathsep.join((beside, os.environ.get("PATH", ""))))
    if found is None:
        pytest.skip(f"{name} {_GROUP}")
    return found


def call(*command: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("asset", [ASSET, "target/coreai/head_T8.aimodel"])
def test_the_doctor_finds_nothing(base: Path, tmp_path: Path, asset: str) -> None:
    """``coreai doctor`` has no defect to tell of an asset of this tool."""
    doctor = program("coreai")
    done = call(doctor, "doctor", str(base / asset), "--json", cwd=tmp_path, home=tmp_path)
    assert 0 == done.returncode, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert [] == [one for one in report.get("findings", []) if one.get("severity") != "requirement"], report


def test_safetensors_opens_our_files(base: Path) -> None:
    """The common library reads the names, types, shapes and bytes that we do."""
    from safetensors import safe_open

    for file in ("drafter/selector.safetensors", "quant/drafter_quant.safetensors", HEAD):
        ours = read_safetensors(base / file)
        with safe_open(base / file, framework="np") as theirs:
            assert sorted(ours.tensors) == sorted(theirs.keys())
            for name in ours.tensors:
                assert np.array_equal(ours.array(name).view(np.uint8), theirs.get_tensor(name).view(np.uint8)), name


def test_tokenizers_opens_the_miniatures() -> None:
    """The common library reads the tokenizer that the pair is bound to, id by id as we do."""
    from tokenizers import Tokenizer

    model = find_miniature().target / "model"
    theirs, ours = Tokenizer.from_file(str(model / "tokenizer.json")), read_tokenizer(model)
    assert ours.size == theirs.get_vocab_size(with_added_tokens=True)
    assert ours.tokens == {number: theirs.id_to_token(number) for number in ours.tokens}


def test_sha256sum_agrees(base: Path, tmp_path: Path) -> None:
    """The digests that the sidecar lists are those that ``sha256sum -c`` computes."""
    files = json.loads((base / SIDECAR).read_bytes())["forgepack"]["package"]["files"]
    lines = [f"{record['sha256']}  {path}" for path, record in sorted(files.items()) if "sha256" in record]
    assert len(lines) > 5
    (tmp_path / "SHA256SUMS").write_text("\n".join(lines) + "\n")
    done = call(
        program("sha256sum"), "-c", "--strict", str(tmp_path / "SHA256SUMS"), cwd=base / "drafter", home=tmp_path
    )
    assert 0 == done.returncode, done.stdout + done.stderr


def test_a_signature_beside_the_package(pair: Path, tmp_path: Path) -> None:
    """The model-signing CLI signs the package's folder, its signature beside it, and both verifications pass."""
    signer, keys = program("model_signing"), tmp_path / "keys"
    keys.mkdir()
    openssl = program("openssl")
    private, public, signature = keys / "private.pem", keys / "public.pem", pair / "drafter.sig"
    for command in (
        [openssl, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(private)],
        [openssl, "ec", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        _run(command, pair, tmp_path)
    common = [str(pair / "drafter"), "--signature", str(signature)]
    _run([signer, "sign", "key", *common, "--private_key", str(private)], pair, tmp_path)
    _run([signer, "verify", "key", *common, "--public_key", str(public)], pair, tmp_path)
    report = verified(pair, "hash", sources=True, strict=True)
    assert "pass" == report.verdict, explain_all(report)


def _run(command: Sequence[str], cwd: Path, home: Path) -> None:
    done = call(*command, cwd=cwd, home=home)
    assert 0 == done.returncode, done.stdout + done.stderr
