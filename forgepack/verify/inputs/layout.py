"""Which files of a drafter folder are the package: asset, sidecar, and things that must not be taken for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forgepack.artifacts.aimodel import ASSET_FILES, COMPILED_SUFFIXES, SUFFIX
from forgepack.artifacts.mlpackage import coreml_parts
from forgepack.artifacts.tree import Entry
from forgepack.errors import NothingToVerifyError

SELECTOR_FILE = "selector.safetensors"
SOURCE_FILE = "DFLASH2_SOURCE.json"
CONFIG_FILE = "config.json"
LICENCE_FILE = "LICENSE"
NOTICE_FILE = "NOTICE"


# What people name in place of a package, by a file that only it has.
_TAKEN_FOR = {
    "release.json": "it is a whole release: name it by --bundle, without --target",
    "main.mlirb": "it is an asset: name the folder that holds it",
    "drafter_quant.safetensors": "it is a quantized drafter: forgepack emit makes the package of it",
    "checkpoint.lock.json": "it is a checkpoint: forgepack quantize and emit make the package of it",
    "coreai": "it is a target: name it by --target, and the drafter folder of forgepack emit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The package's parts by name. ``stem`` is shared by asset and sidecar; ``expected`` is the profile's stem.

    ``assets`` are all entries with the asset's suffix, ``compiled`` those of compiled assets, ``coreml`` those that
    belong to Core ML or hold something that does: names at the top of the folder.
    """

    root: Path
    stem: str
    expected: str
    assets: tuple[str, ...]
    compiled: tuple[str, ...]
    coreml: tuple[str, ...]

    @property
    def asset(self) -> Path:
        """The asset's folder."""
        return self.root / f"{self.stem}{SUFFIX}"

    @property
    def sidecar(self) -> Path:
        """The sidecar beside the asset."""
        return self.root / f"{self.stem}.json"

    @property
    def files(self) -> frozenset[str]:
        """The files that a sidecar lists: everything of the package but the sidecar itself."""
        parts = {f"{self.asset.name}/{name}" for name in ASSET_FILES}
        return frozenset(parts | self.names) - {self.asset.name, self.sidecar.name}

    @property
    def names(self) -> frozenset[str]:
        """The top-level names that a package consists of."""
        plain = (CONFIG_FILE, SELECTOR_FILE, SOURCE_FILE, LICENCE_FILE, NOTICE_FILE)
        return frozenset({self.asset.name, self.sidecar.name, *plain})


def find_layout(root: Path, entries: Sequence[Entry], stem: str) -> Layout:
    """Find the package in a folder; NothingToVerifyError when nothing in it is part of one.

    The profile's stem is preferred; else a single asset of another stem is taken, and a rule reports the name.
    """
    top = [e.path for e in entries if "/" not in e.path]
    assets = tuple(name for name in top if name.endswith(SUFFIX))
    compiled = tuple(name for name in top if name.endswith(COMPILED_SUFFIXES))
    coreml = tuple(name for name in coreml_parts(e.path for e in entries) if not name.endswith(SUFFIX))
    marks = {SELECTOR_FILE, SOURCE_FILE, f"{stem}.json"}
    if not (assets or compiled or coreml or marks & set(top)):
        raise NothingToVerifyError(
            "the folder holds no package",
            where=str(root),
            expected=f"{stem}{SUFFIX} and {stem}.json",
            found=_listing(top),
            hint=_hint(top),
        )
    chosen = stem if f"{stem}{SUFFIX}" in assets or not assets else assets[0].removesuffix(SUFFIX)
    return Layout(root=root, stem=chosen, expected=stem, assets=assets, compiled=compiled, coreml=coreml)


def _hint(top: Sequence[str]) -> str:
    """Return what to name instead, by what the folder is taken for."""
    return next(
        (hint for name, hint in _TAKEN_FOR.items() if name in top), "name the drafter folder of forgepack emit"
    )


def empty_layout(root: Path, stem: str) -> Layout:
    """Return the layout of a package of which nothing is there."""
    return Layout(root=root, stem=stem, expected=stem, assets=(), compiled=(), coreml=())


def _listing(names: Sequence[str]) -> str:
    if not names:
        return "an empty folder"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(repr(n) for n in names[:3]) + more
