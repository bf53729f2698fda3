"""The miniature built once a session: locked checkpoint, two quantizations, package."""

from __future__ import annotations

import shutil
from pathlib import Path

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.lock import LockedFile, make_lock, write_lock
from forgepack.miniature.data import PROFILE, find_miniature
from forgepack.miniature.scene import Scene
from forgepack.profile import load_profile


def build_scene(work: Path) -> Scene:
    """Lock a copy of the miniature's checkpoint, quantize it twice, emit its package."""
    scene = Scene(profile=load_profile(PROFILE), miniature=find_miniature(), work=work, threads=1)
    pin = scene.profile.hub
    shutil.copytree(scene.miniature.checkpoint, scene.checkpoint)
    hashed = {name: hash_file(scene.checkpoint / name) for name in pin.files}
    files = [LockedFile(path=name, bytes=size, sha256=sha256) for name, (size, sha256) in hashed.items()]
    write_lock(scene.checkpoint, make_lock(repo=pin.repo, commit=pin.commit, adopted=False, files=files))
    mini = scene.miniature
    scene.quantize(scene.quant, calibration=mini.calibration, held_out=mini.held_out)
    scene.quantize(scene.rounded, calibration=mini.calibration, held_out=mini.held_out, method="rtn")
    scene.emit(scene.drafter)
    return scene
