"""Killed runs and failed writes, in a real child process: the old state or the new one, never a half."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.torture import quantize_victim, torture
from forgepack.artifacts.quant import read_quant
from forgepack.cli.main import run
from forgepack.disk.places import work_folder
from forgepack.errors import ForgepackError
from forgepack.quantize.progress import Progress
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import quantize
from tests.synthetic import GEOMETRY, make_profile, profile_json
from tests.synthetic_files import open_sources, write_pair

LIMITED = """
import resource, sys
from forgepack.cli.main import run
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(run(sys.argv[2:]))
"""

ROOT = Path(__file__).resolve().parents[2]

# The first run loads every module while the interpreter's own files can still be read.
DROPPED = """
import os, sys
from forgepack.cli.main import run
split = sys.argv.index("--")
assert run(sys.argv[1:split]) == 0
os.setuid(65534)
sys.exit(run(sys.argv[split + 1 :]))
"""


def write_inputs(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    write_pair(root)
    (root / "profile.json").write_text(json.dumps(profile_json()))
    return root


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("pair"))


def arguments(pair: Path, out: Path, *more: str) -> list[str]:
    named = ["--traces", pair / "bound.npz", "--target", pair / "target", "--out", out]
    return ["quantize", *map(str, [pair / "checkpoint", *named, "--profile", pair / "profile.json"]), *more]


def contents(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(root.iterdir())}


@pytest.mark.parametrize("parts", [1, 9, 19])
def test_a_killed_run_goes_on(pair: Path, tmp_path: Path, parts: int) -> None:
    """Killed once so many matrices are finished, the next run takes them over and ends in the same bytes."""
    whole, out = tmp_path / "whole", tmp_path / "q"
    assert run(arguments(pair, whole)) == 0
    child = subprocess.Popen([sys.executable, "-m", "forgepack", *arguments(pair, out)], stderr=subprocess.DEVNULL)
    finished = work_folder(out) / "parts"
    while child.poll() is None and len(list(finished.glob("*.safetensors"))) < parts:
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not out.exists() or contents(whole) == contents(out)
    assert run(arguments(pair, out, "--force")) == 0
    assert contents(whole) == contents(out)
    assert not work_folder(out).exists()


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    os.utime(path, ns=(1, 1))


def replaced(path: Path) -> None:
    """Put other bytes of the same size and time under the name, as a synchronising tool would."""
    status, other = path.stat(), path.with_name("other")
    other.write_bytes(path.read_bytes()[:-1] + b"x")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def removed(path: Path) -> None:
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("change", [overwritten, replaced, removed])
@pytest.mark.parametrize(
    "changed", ["bound.npz", "checkpoint/model.safetensors", "target/model/embed_tokens_fp16.npy"]
)
def test_a_source_that_changes_while_it_is_read_publishes_nothing(
    tmp_path: Path, changed: str, change: Callable[[Path], None]
) -> None:
    """An input changed after the first matrix ends the run in code 4, and an old output stays as it was."""
    pair, out = write_inputs(tmp_path / "pair"), tmp_path / "q"
    assert run(arguments(pair, out, "--method", "rtn")) == 0
    before = contents(out)
    seen: list[str] = []
    sources = open_sources(pair, make_profile(), traces="bound.npz")

    def disturb(event: Progress) -> None:
        if not seen:
            change(pair / changed)
        seen.append(event.name)

    with pytest.raises(ForgepackError) as caught:
        quantize(sources, out, profile=make_profile(), options=Options(force=True), progress=disturb)
    assert (4, True) == (caught.value.exit_code, str(pair / changed) in str(caught.value.where)), caught.value
    assert before == contents(out)


CUT = """
import os, sys
from pathlib import Path
from forgepack.quantize.recipe import Options
from forgepack.quantize.run import quantize
from tests.synthetic import make_profile
from tests.synthetic_files import open_sources
pair, out = map(Path, sys.argv[1:])
sources = open_sources(pair, make_profile(), traces="bound.npz")
cut = lambda _: os.truncate(pair / "checkpoint" / "model.safetensors", 5000)
quantize(sources, out, profile=make_profile(), options=Options(force=True), progress=cut)
"""


def test_weights_cut_short_while_they_are_mapped_publish_nothing(tmp_path: Path) -> None:
    """A file that shrinks under its memory map ends the process, by the system's own signal; the old output stays."""
    pair, out = write_inputs(tmp_path / "pair"), tmp_path / "q"
    assert run(arguments(pair, out, "--method", "rtn")) == 0
    before = contents(out)
    child = subprocess.run([sys.executable, "-c", CUT, pair, out], capture_output=True, check=False, cwd=ROOT)
    assert child.returncode != 0
    assert before == contents(out)


def test_kills_at_random_moments_leave_nothing_half(pair: Path, tmp_path: Path) -> None:
    """A sample of ``make torture`` on the synthetic pair."""
    victim = quantize_victim(
        pair / "checkpoint",
        traces=pair / "bound.npz",
        target=pair / "target",
        profile=str(pair / "profile.json"),
    )
    outcome = torture(victim, tmp_path, rounds=6, seed=1)
    assert ([], 6) == (outcome.faults, outcome.kills)
    assert {"old", "absent", "new"} >= set(outcome.places)


@pytest.mark.parametrize("limit", [100, 3000, 30_000])
def test_a_failed_write_ends_in_code_5(pair: Path, tmp_path: Path, limit: int) -> None:
    """Where no file can grow past a limit, the command says so, and an old output stays as it was."""
    out = tmp_path / "q"
    assert run(arguments(pair, out, "--method", "rtn")) == 0
    before = contents(out)
    command = [sys.executable, "-c", LIMITED, str(limit), *arguments(pair, out, "--force")]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == 5, child.stderr
    assert "could not be written" in child.stderr
    assert before == contents(out)
    assert read_quant(out, GEOMETRY).report.method == "rtn"


@pytest.mark.skipif(os.geteuid() != 0, reason="drops root's rights in a child")
def test_an_unwritable_parent_ends_in_code_5() -> None:
    """Without the right to write beside the output nothing is begun."""
    with tempfile.TemporaryDirectory() as name:  # pytest keeps its own folders closed to other users
        root = Path(name)
        root.chmod(0o755)
        pair = write_inputs(root / "pair")
        folder = root / "read-only"
        folder.mkdir(mode=0o555)
        as_root, dropped = arguments(pair, root / "as-root"), arguments(pair, folder / "q")
        command = [sys.executable, "-c", DROPPED, *as_root, "--", *dropped]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        assert child.returncode == 5, child.stderr
        assert [] == list(folder.iterdir())
