"""Room on the disk, asked for before the work begins."""

from __future__ import annotations

import shutil
from pathlib import Path

from forgepack.disk.failures import writing
from forgepack.errors import OutputError

SPARE = 16 << 20  # for what is small and not counted: documents, sidecars, records


def closest_folder(path: Path) -> Path:
    """Return the folder that a path is in or will be in: the closest one above it that is there."""
    absolute = path.absolute()
    return next((one for one in absolute.parents if one.is_dir()), absolute)


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user may still write to the folder's file system."""
    with writing(folder):
        return shutil.disk_usage(folder).free


def used_bytes(folder: Path) -> int:
    """Return the bytes of the files below a folder: what an earlier run wrote need not be free any more."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def demand_space(needed: int, free: int, out: Path, *, hint: str = "") -> None:
    """Raise OutputError (``disk-full``) where ``needed`` bytes are more than are ``free`` beside ``out``."""
    if needed > free:
        raise OutputError(
            "the disk has too little space",
            where=str(out),
            expected=f"{needed} bytes free",
            found=f"{free} bytes free",
            hint=hint or "free space or choose another --out, then run the same command again",
            code="disk-full",
        )
