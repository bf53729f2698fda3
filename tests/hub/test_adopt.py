"""Taking in a folder obtained otherwise: judged as far as can be without the hub, and recorded as adopted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forgepack.artifacts.lock import LOCK_NAME, LockedFile, make_lock, read_lock, write_lock
from forgepack.artifacts.locked import require_locked
from forgepack.artifacts.safetensors_file import DTYPES
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.canonical import sha256_hex
from forgepack.errors import CorruptError, ForgepackError, IdentityError, MissingError, UnreadableError, UsageError
from forgepack.geometry import Geometry, checkpoint_tensors
from forgepack.hub import AdoptRequest, FetchReport, Progress, adopt_checkpoint
from forgepack.profile import Profile
from tests.hub.bench import COMMIT, OTHER, PROFILE, REPO, Bench, tree_of
from tests.hub.loopback import LoopbackHub

GEOMETRY = replace(
    PROFILE.geometry,
    hidden=32,
    vocab=64,
    layers=1,
    heads=2,
    kv_heads=1,
    head_dim=16,
    intermediate=48,
    selector_rank=4,
    selector_top_k=4,
    conv_group=8,
    mask_token=60,
    window=16,
    taps=(1, 3),
    target_layers=6,
)
SMALL: Profile = replace(PROFILE, geometry=GEOMETRY, known_bad={})


def config_of(g: Geometry) -> bytes:
    """Return the config.json of a drafter of this geometry."""
    dflash = {
        "block_size": g.block,
        "conv_group_size": g.conv_group,
        "conv_kernel_size": g.conv_kernel,
        "mask_token_id": g.mask_token,
        "selector_rank": g.selector_rank,
        "selector_top_k": g.selector_top_k,
        "target_layer_ids": list(g.taps),
    }
    config = {
        "architectures": ["DFlash2DraftModel"],
        "attention_bias": False,
        "dflash_config": dflash,
        "dtype": "bfloat16",
        "head_dim": g.head_dim,
        "hidden_act": "silu",
        "hidden_size": g.hidden,
        "intermediate_size": g.intermediate,
        "is_causal": False,
        "layer_types": ["sliding_attention"] * g.layers,
        "model_type": "qwen3",
        "num_attention_heads": g.heads,
        "num_hidden_layers": g.layers,
        "num_key_value_heads": g.kv_heads,
        "num_target_layers": g.target_layers,
        "rms_norm_eps": g.rms_eps,
        "rope_parameters": {"rope_theta": g.rope_theta, "rope_type": "default"},
        "sliding_window": g.window,
        "tie_word_embeddings": False,
        "use_sliding_window": True,
        "vocab_size": g.vocab,
    }
    return json.dumps(config).encode()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a folder with a well-formed checkpoint of the small geometry, as a browser would leave it."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "config.json").write_bytes(config_of(GEOMETRY))
    (folder / "LICENSE").write_bytes(b"Apache License 2.0\n")
    (folder / "NOTICE").write_bytes(b"Made by the Forge\n")
    write_weights(folder / "model.safetensors", seed=1)
    return folder


def write_weights(path: Path, seed: int, *, dtype: str = "BF16", drop: str = "") -> None:
    """Write all tensors of the small geometry but ``drop``."""
    shapes = {name: shape for name, shape in checkpoint_tensors(GEOMETRY).items() if name != drop}
    random = np.random.default_rng(seed)
    with SafetensorsWriter(path, {n: (dtype, s) for n, s in shapes.items()}, {}) as writer:
        for name, shape in shapes.items():
            writer.write(name, random.standard_normal(shape).astype(DTYPES[dtype]))


def adopt(bench: Bench, source: Path, profile: Profile = SMALL, **options: object) -> FetchReport:
    """Run adopt_checkpoint with recorded effects."""
    return adopt_checkpoint(AdoptRequest(profile=profile, source=source, **options), effects=bench.effects)  # type: ignore[arg-type]


def test_a_folder_is_locked_in_place_and_recorded_as_adopted(bench: Bench, source: Path) -> None:
    """Nothing but the lock is added, no request is made, and readers accept it."""
    before = tree_of(source)
    report = adopt(bench, source)
    assert {**before, LOCK_NAME: (source / LOCK_NAME).read_bytes()} == tree_of(source)
    lock = require_locked(source, SMALL, hashed=True)
    assert (True, REPO, COMMIT, lock) == (lock.adopted, lock.repo, lock.commit, report.lock)
    assert {name: sha256_hex(data) for name, data in before.items()} == {f.path: f.sha256 for f in lock.files}
    assert ([], ["adopted"] * 4) == (bench.hub.log, [f.action for f in report.files])
    assert "not compared" in report.notes[0]


def test_adopting_twice_changes_nothing(bench: Bench, source: Path) -> None:
    """The second time only verifies; a lock that fetch wrote is never turned into an adopted one."""
    adopt(bench, source)
    before = tree_of(source)
    assert {"verified"} == {f.action for f in adopt(bench, source).files}
    assert before == tree_of(source)
    adopted = read_lock(source)
    fetched = make_lock(repo=adopted.repo, commit=adopted.commit, adopted=False, files=_unstated(adopted.files))
    write_lock(source, fetched)
    assert fetched == adopt(bench, source).lock
    assert fetched == read_lock(source)


def _unstated(files: Iterable[LockedFile]) -> list[LockedFile]:
    return [replace(file, evidence=None) for file in files]


def test_a_lock_that_says_otherwise_is_kept_until_force(bench: Bench, source: Path) -> None:
    """Changed weights and another commit are both refused."""
    adopt(bench, source)
    before = read_lock(source)
    write_weights(source / "model.safetensors", seed=2)
    with pytest.raises(IdentityError) as caught:
        adopt(bench, source)
    assert "lock-differs" == caught.value.code
    with pytest.raises(IdentityError):
        adopt(bench, source, revision=OTHER)
    assert before == read_lock(source)
    adopt(bench, source, force=True)
    assert before != read_lock(source)
    require_locked(source, SMALL, hashed=True)


def test_a_fetch_over_an_adopted_folder_proves_it_against_the_hub(tmp_path: Path, source: Path) -> None:
    """Right bytes are kept and the lock is no longer an adopted one; wrong ones are named."""
    files = tree_of(source)
    with LoopbackHub.serve({REPO: {COMMIT: files}}) as hub:
        bench = Bench(hub, source)
        adopt(bench, source)
        report = bench.fetch(profile=SMALL)
        assert ["kept"] * 4 == [f.action for f in report.files]
        assert not require_locked(source, SMALL, hashed=True).adopted
        write_weights(source / "model.safetensors", seed=2)
        adopt(bench, source, force=True)
        with pytest.raises(IdentityError) as caught:
            bench.fetch(profile=SMALL)
        assert "out-differs" == caught.value.code


def test_the_donor_is_refused_by_its_hash(bench: Bench, source: Path) -> None:
    """Same names, same shapes, other weights."""
    bad = sha256_hex((source / "model.safetensors").read_bytes())
    with pytest.raises(IdentityError) as caught:
        adopt(bench, source, replace(SMALL, known_bad={bad: "the donor"}))
    assert ("known-bad", 4) == (caught.value.code, caught.value.exit_code)
    assert not (source / LOCK_NAME).exists()


@pytest.mark.parametrize(
    ("name", "data", "kind", "code"),
    [
        (
            "model.safetensors",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n",
            CorruptError,
            "lfs-pointer",
        ),
        ("NOTICE", b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", CorruptError, "lfs-pointer"),
        ("model.safetensors", b"<!DOCTYPE html><p>", CorruptError, "wrong-magic"),
        ("config.json", b"<html>", CorruptError, "wrong-magic"),
        ("model.safetensors", b"PK\x03\x04zip", CorruptError, "wrong-magic"),
        ("model.safetensors", b"", CorruptError, "empty"),
        ("LICENSE", b"", CorruptError, "empty"),
        ("model.safetensors", b"\x10\x00\x00", CorruptError, "truncated"),
        ("config.json", b"{", CorruptError, "json-syntax"),
        ("NOTICE", None, MissingError, "missing"),
        ("model.safetensors", None, MissingError, "missing"),
    ],
)
def test_damaged_files_are_each_named(
    bench: Bench, source: Path, name: str, data: bytes | None, kind: type[ForgepackError], code: str
) -> None:
    """Pointer, page, archive, empty, truncated, absent: exit 4 and no lock."""
    (source / name).unlink()
    if data is not None:
        (source / name).write_bytes(data)
    with pytest.raises(kind) as caught:
        adopt(bench, source)
    assert (code, 4) == (caught.value.code, caught.value.exit_code)
    assert name in str(caught.value.where)
    assert not (source / LOCK_NAME).exists()


def test_weights_of_another_shape_dtype_or_set_are_refused(bench: Bench, source: Path) -> None:
    """The closed set of tensors must be the profile's."""
    weights = source / "model.safetensors"
    write_weights(weights, seed=1, dtype="F16")
    with pytest.raises(CorruptError):
        adopt(bench, source)
    write_weights(weights, seed=1, drop="fc.weight")
    with pytest.raises(MissingError):
        adopt(bench, source)
    write_weights(weights, seed=1)
    (source / "config.json").write_bytes(config_of(replace(GEOMETRY, taps=(3, 1))))
    with pytest.raises(CorruptError):
        adopt(bench, source)
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CorruptError):
        adopt(bench, source)


def test_a_folder_that_the_client_filled_from_another_commit_is_refused(bench: Bench, source: Path) -> None:
    """huggingface_hub notes each file's commit; a note that can't be read is no evidence."""
    note = source / ".cache" / "huggingface" / "download" / "model.safetensors.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"{OTHER}\netag\n1.0\n")
    with pytest.raises(IdentityError) as caught:
        adopt(bench, source)
    assert ("wrong-commit", COMMIT, OTHER) == (caught.value.code, caught.value.expected, caught.value.found)
    for text in (f"{COMMIT}\netag\n1.0\n", "", "\x00junk"):
        note.write_text(text)
        adopt(bench, source)


def test_a_client_cache_of_links_is_copied_never_locked_in_place(bench: Bench, source: Path, tmp_path: Path) -> None:
    """Links into blobs/ are followed only with --out, and the cache is left as it was."""
    snapshot, blobs = tmp_path / "snapshots" / COMMIT, tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    source.rename(blobs)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(os.path.relpath(file, snapshot))
    before = tree_of(tmp_path)
    with pytest.raises(CorruptError, match="lock must stand beside") as caught:
        adopt(bench, snapshot)
    assert "--out" in str(caught.value.hint)
    report = adopt(bench, snapshot, out=bench.out)
    assert before == {k: v for k, v in tree_of(tmp_path).items() if not k.startswith("checkpoint/")}
    assert {**tree_of(snapshot), LOCK_NAME: (bench.out / LOCK_NAME).read_bytes()} == tree_of(bench.out)
    assert not any(p.is_symlink() for p in bench.out.iterdir())
    assert report.lock == require_locked(bench.out, SMALL, hashed=True)
    assert report.adopted


def test_copies_are_planned_kept_and_refused_like_downloads(bench: Bench, source: Path) -> None:
    """Dry run, a second run, foreign files in the way, too little space."""
    plan = adopt(bench, source, out=bench.out, dry_run=True)
    assert ({"planned"}, False) == ({f.action for f in plan.files}, bench.out.exists())
    assert sum(len(d) for d in tree_of(source).values()) == plan.needed
    bench.free = 10
    with pytest.raises(ForgepackError) as caught:
        adopt(bench, source, out=bench.out)
    assert "disk-full" == caught.value.code
    bench.free = 1 << 40
    assert {"copied"} == {f.action for f in adopt(bench, source, out=bench.out).files}
    assert {"kept"} == {f.action for f in adopt(bench, source, out=bench.out).files}
    assert {0} == {f.received for f in adopt(bench, source, out=bench.out).files}
    write_weights(source / "model.safetensors", seed=2)
    with pytest.raises(IdentityError) as caught:
        adopt(bench, source, out=bench.out)
    assert "lock-differs" == caught.value.code
    adopt(bench, source, out=bench.out, force=True)
    assert tree_of(source)["model.safetensors"] == (bench.out / "model.safetensors").read_bytes()


def test_a_dry_run_in_place_writes_nothing(bench: Bench, source: Path) -> None:
    """It still hashes, so it tells what would be refused."""
    before = tree_of(source)
    report = adopt(bench, source, dry_run=True)
    assert (before, None, True) == (tree_of(source), report.lock, report.dry_run)


def test_special_files_links_and_absent_folders_are_refused(bench: Bench, source: Path, tmp_path: Path) -> None:
    """A FIFO never blocks, a dangling link is missing, an absent folder is a usage error."""
    with pytest.raises(UsageError):
        adopt(bench, tmp_path / "nowhere")
    with pytest.raises(UsageError):
        adopt(bench, source, revision="main")
    (source / "NOTICE").unlink()
    os.mkfifo(source / "NOTICE")
    with pytest.raises(CorruptError):
        adopt(bench, source)
    (source / "NOTICE").unlink()
    (source / "NOTICE").symlink_to("gone")
    with pytest.raises(CorruptError):
        adopt(bench, source)
    with pytest.raises(MissingError):
        adopt(bench, source, out=bench.out)
    (source / "NOTICE").unlink()
    (source / "NOTICE").symlink_to("NOTICE")
    with pytest.raises((CorruptError, UnreadableError)):
        adopt(bench, source, out=bench.out)


def test_a_source_that_changes_while_it_is_copied_is_told(bench: Bench, source: Path) -> None:
    """It is an unreadable input (exit 4), not a failure of the hub, and no lock is written."""

    class Truncating(Bench):
        def listen(self, progress: Progress) -> None:
            if progress.phase == "copy" and progress.path == "LICENSE":
                with (source / "model.safetensors").open("r+b") as handle:
                    handle.truncate(1000)

    with pytest.raises(UnreadableError) as caught:
        adopt(Truncating(bench.hub, bench.out), source, out=bench.out)
    assert ("changed", False) == (caught.value.code, bench.complete())
