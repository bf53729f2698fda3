"""What is killed: commands on a tiny pair, each with the states that its place may be in after a kill."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forgepack.artifacts.lock import LOCK_NAME, read_lock
from forgepack.artifacts.locked import byte_differences
from forgepack.canonical import dump_canonical
from forgepack.cli.main import run
from forgepack.disk.folders import copy_folder, locked_work, publish, remove_work
from forgepack.disk.places import aside_folder, new_folder, work_folder
from forgepack.errors import ForgepackError, UsageError
from forgepack.hub import Effects, FetchRequest, HubSettings, fetch_checkpoint
from forgepack.miniature.data import find_miniature
from forgepack.verify.inputs.sources import demand_folder
from tests.hub.bench import COMMIT, FILES, OTHER, PROFILE, REPO, expected_tree, tree_of
from tests.hub.loopback import LoopbackHub
from tests.release.bench import UPSTREAM, judged
from tests.verify.attested import make_sibling, replay_report
from tests.verify.conftest import build_pair
from tests.verify.factory import tiny_profile

OLD, NEW = "old", "new"


class Case:
    """One command that is killed in ``root``; ``out`` is its place, ``states`` what may stand there, by name."""

    name = ""
    environment: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "out"

    @contextmanager
    def made(self) -> Iterator[None]:
        """Make the inputs and the two states; what they need runs meanwhile."""
        self.make()
        yield

    def make(self) -> None:
        """Make the inputs and the states ``old`` and ``new`` in folders of these names."""

    def reset(self, number: int) -> None:
        """Put the older output in the place, or, every second time, nothing; every other pair goes on from before."""
        if number % 4 < 2:
            self.clear()
        _remove(self.out)
        if number % 2:
            _copy(self.root / OLD, self.out)

    def clear(self) -> None:
        """Remove what killed runs left."""
        for folder in (work_folder(self.out), aside_folder(self.out)):
            _remove(folder)

    def act(self) -> None:
        """Run the command; in a child."""
        raise NotImplementedError

    def judge(self, number: int) -> str:
        """Return what stands in the place after a kill; ``half`` for what must never stand there."""
        allowed = {NEW, OLD if number % 2 else "nothing"}
        found = self.found()
        return found if found in allowed else f"half: {found}, expected {' or '.join(sorted(allowed))}"

    def found(self) -> str:
        """Name what stands in the place."""
        if not os.path.lexists(self.out):
            return "nothing"
        return next((name for name in (OLD, NEW) if _same(self.root / name, self.out)), "something else")

    def staged(self) -> Iterator[str]:
        """Yield what lies in the work folder and would pass for an output though it is half of one."""
        yield from ()

    def left(self) -> list[str]:
        """Return what a last whole run left beside its output."""
        known = {OLD, NEW, self.out.name, "inputs", "url"}
        return sorted(path.name for path in self.root.iterdir() if path.name not in known)


class BundleCase(Case):
    """``bundle --force`` over a release with other documents."""

    name = "bundle"

    def make(self) -> None:
        """Bundle once with the written documents, once with a README of its own."""
        base = build_pair(self.root / "inputs", tiny_profile())
        (base / "documents").mkdir()
        (base / "documents/README.md").write_text("older\n")
        self._bundle(self.root / OLD, "--documents", str(base / "documents"))
        self._bundle(self.root / NEW)

    def act(self) -> None:
        """Bundle over what is there."""
        self._bundle(self.out)

    def _bundle(self, out: Path, *more: str) -> None:
        base = self.root / "inputs"
        named = ["--target", str(base / "target"), "--profile", str(base / "profile.json"), "--out", str(out)]
        upstream = ["--upstream-id", UPSTREAM.id, "--upstream-revision", UPSTREAM.revision]
        _run("bundle", str(base / "drafter"), *named, *upstream, "--force", *more)

    def staged(self) -> Iterator[str]:
        """Yield stages that verify passes though they are no whole release."""
        for stage in (work_folder(self.out) / "stage", new_folder(self.out), work_folder(self.out) / "gone"):
            whole = any(_same(self.root / name, stage) for name in (OLD, NEW))
            if (stage / "release.json").is_file() and not whole and judged(stage).verdict == "pass":
                yield stage.name


class AttestCase(Case):
    """``attest --force`` over an attestation of another depth's run: a single file."""

    name = "attest"
    environment = {"FS_SLOW_RENAME": "200000"}  # noqa: RUF012  (else hardly a kill meets the moment of writing)

    def make(self) -> None:
        """Make a second target with evidence, and two attestations."""
        base = build_pair(self.root / "inputs", tiny_profile())
        make_sibling(base)
        for name, workload in ((OLD, "older"), (NEW, "newer")):
            report = replay_report(base / "drafter", base / "sibling", tiny_profile())
            (base / f"{name}.json").write_bytes(dump_canonical({**report, "workload": workload}))
            self._attest(self.root / name, name)

    def act(self) -> None:
        """Attest over what is there."""
        self._attest(self.out, NEW)

    def clear(self) -> None:
        """Leave what killed runs left: the next run removes it."""

    def _attest(self, out: Path, evidence: str) -> None:
        base = self.root / "inputs"
        named = ["--target", str(base / "sibling"), "--evidence", str(base / f"{evidence}.json")]
        profile = ["--profile", str(base / "profile.json"), "--depth", "hash"]
        _run("attest", str(base / "drafter"), *named, *profile, "--out", str(out), "--force")


class FetchCase(Case):
    """``fetch --force`` of another commit, from a hub on loopback, over a locked checkpoint."""

    name = "fetch"
    newer = {**FILES, "NOTICE": b"Another notice\n", "config.json": b'{"block_size": 4}\n'}  # noqa: RUF012

    @contextmanager
    def made(self) -> Iterator[None]:
        """Serve both commits."""
        with LoopbackHub.serve({REPO: {COMMIT: FILES, OTHER: self.newer}}) as hub:
            (self.root / "url").write_text(hub.url)
            self._fetch(self.root / OLD, COMMIT)
            self._fetch(self.root / NEW, OTHER)
            yield

    def act(self) -> None:
        """Fetch the newer commit."""
        self._fetch(self.out, OTHER)

    def clear(self) -> None:
        """Leave nothing: all of a fetch lies in its folder."""

    def reset(self, number: int) -> None:
        """Put the older checkpoint in the place, or nothing; every other pair goes on from before."""
        if number % 4 < 2:
            super().reset(number)

    def judge(self, number: int) -> str:
        """Hold every byte against the lock, which says complete; without one every file is of either commit."""
        if not self.out.exists():
            return "nothing"
        if (self.out / LOCK_NAME).exists():
            wrong = byte_differences(self.out, read_lock(self.out), lambda *_: None)
            found = tree_of(self.out)
            name = OLD if found[LOCK_NAME] == expected_tree()[LOCK_NAME] else NEW
            return f"half: the lock of {name} over {wrong}" if wrong else name
        known = {data for files in (FILES, self.newer) for data in files.values()}
        odd = [p.name for p in self.out.iterdir() if p.is_file() and p.read_bytes() not in known]
        return f"half: {odd}" if [name for name in odd if not name.startswith(".forgepack-tmp-")] else "no lock"

    def _fetch(self, out: Path, revision: str) -> None:
        settings = HubSettings(endpoint=(self.root / "url").read_text(), token=False, timeout=20.0)
        effects = Effects(sleep=lambda _: None, clock=lambda: 0.0)
        request = FetchRequest(profile=PROFILE, out=out, revision=revision, force=True)
        fetch_checkpoint(request, settings=settings, effects=effects)


class ReplaceCase(Case):
    """A folder replaced by its like, again and again, on a file system without exchange whose renames are slow."""

    name = "replace"
    environment = {"FS_NO_EXCHANGE": "22", "FS_SLOW_RENAME": "3000"}  # noqa: RUF012

    def make(self) -> None:
        """Make two folders with a record."""
        for name in (OLD, NEW):
            (self.root / name).mkdir()
            record: dict[str, Any] = {"schema": "forgepack.quant_report/2", "output": {"file": "a.safetensors"}}
            (self.root / name / "report.json").write_text(json.dumps({**record, "which": name}))
            (self.root / name / "a.safetensors").write_text(name * 1000)

    def reset(self, number: int) -> None:
        """Leave all as it is: each run mends what the killed one left."""
        if not number:
            _remove(self.out)
            _copy(self.root / OLD, self.out)

    def act(self) -> None:
        """Replace the folder by each state in turn."""
        for name in (NEW, OLD) * 10:
            with locked_work(self.out, force=True) as work:
                publish(copy_folder(self.root / name, work / "copy"), self.out)
                remove_work(work)

    def judge(self, number: int) -> str:
        """Return the place's state; between the two renames both halves are whole, and verify names them."""
        found = self.found()
        if found != "nothing":
            return found if found in (OLD, NEW) else "half: the place"
        halves = aside_folder(self.out), new_folder(self.out)
        if not all(any(_same(self.root / name, half) for name in (OLD, NEW)) for half in halves):
            return "half: a half is not whole"
        try:
            demand_folder(self.out, "the folder")
        except UsageError as err:
            told = str(err)
        named = all(str(half) in told for half in halves) and "forgepack quantize" in told
        return "set aside" if named else f"half: verify names too little: {told}"


class BuildCase(Case):
    """``build --force`` of the miniature's recipe, from an adopted checkpoint, over a release of another recipe."""

    name = "build"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.project = root / "inputs"
        self.out = self.project / "release"

    def make(self) -> None:
        """Build the older release without its export, and the newer one with it."""
        mini = find_miniature()
        self.project.mkdir()
        for name, path in (("calib.npz", mini.calibration), ("heldout.npz", mini.held_out)):
            shutil.copyfile(path, self.project / name)
        shutil.copytree(mini.target, self.project / "target")
        checkpoint = str(self.project / "checkpoint")
        _run("--isolated", "fetch", "--profile", "mini", "--adopt", str(mini.checkpoint), "--out", checkpoint)
        for name, export in ((OLD, "false"), (NEW, "true")):
            self._write(export)
            self.act()
            shutil.copytree(self.out, self.root / name)
        self.clear()

    def _write(self, export: str) -> None:
        keys = {"profile": "mini", "checkpoint": "checkpoint", "traces": "calib.npz", "held-out": "heldout.npz"}
        lines = [f'{key} = "{value}"' for key, value in (keys | {"target": "target", "output": "release"}).items()]
        steps = "[fetch]\noffline = true\n[quantize]\nthreads = 1\n"
        (self.project / "forgepack.toml").write_text("\n".join(lines) + f"\n{steps}[bundle]\nexport = {export}\n")

    def act(self) -> None:
        """Build over what is there."""
        os.chdir(self.project)
        _run("build", "--force")

    def clear(self) -> None:
        """Begin from nothing."""
        super().clear()
        for name in ("work", "forgepack.lock"):
            _remove(self.project / name)


CASES: tuple[type[Case], ...] = (BundleCase, AttestCase, FetchCase, ReplaceCase, BuildCase)


def _run(*arguments: str) -> None:
    code = run(["-q", *arguments])
    if code:
        raise ForgepackError(f"exit {code}: {' '.join(arguments)}")


def _same(left: Path, right: Path) -> bool:
    if left.is_dir():
        return right.is_dir() and tree_of(left) == tree_of(right)
    return left.is_file() and right.is_file() and left.read_bytes() == right.read_bytes()


def _copy(source: Path, out: Path) -> None:
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, out)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
