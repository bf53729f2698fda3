"""What the tests of releases share: inputs, numbers, verification, and edits of a bundle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forgepack.artifacts.target import locate_target
from forgepack.profile import Upstream
from forgepack.release.bundle.inventory import BundleInputs
from forgepack.verify.bundle import Bundle, find_bundle
from forgepack.verify.engine import verify
from forgepack.verify.findings.report import Depth, Report
from tests.release.bundle.release_check import Numbers
from tests.verify.factory import tiny_profile

UPSTREAM = Upstream(id="tests/tiny-target", revision="ab" * 20)
STEM = "dflash2_lut4_gptq"
TINY = Numbers(layers=8, window=16, drafter_layers=2, head_dim=16, kv_heads=1, rank=4)


def bundle_inputs(base: Path, **changes: Any) -> BundleInputs:
    """Return the inputs of the good pair's bundle, with fields replaced."""
    target = base / "target"
    values: dict[str, Any] = {
        "drafter": base / "drafter",
        "target": locate_target(target),
        "root": target,
        "upstream": UPSTREAM,
    }
    return BundleInputs(**values | changes)


def judged(root: Path, depth: str = "hash", *, plain: bool = False, allow_links: bool = False) -> Report:
    """Verify a bundle under the tiny profile."""
    sources = find_bundle(root, plain=plain, allow_links=allow_links)
    return verify(Bundle(sources, tiny_profile(), Depth[depth.upper()], seconds=60))


def read_json(path: Path) -> Any:
    """Return a file's JSON value."""
    return json.loads(path.read_bytes())


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON file in place: ``change`` edits the value or returns another."""
    raw = read_json(path)
    result = change(raw)
    path.write_text(json.dumps(raw if result is None else result, indent=1))


def relist(root: Path, *paths: str) -> None:
    """Bring size and digest of files in the inventory up to date, as whoever re-writes release.json does."""

    def change(release: dict[str, Any]) -> None:
        for entry in release["files"]:
            if entry["path"] in paths:
                data = (root / entry["path"]).read_bytes()
                entry |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    edit(root / "release.json", change)


def edit_listed(root: Path, path: str, change: Callable[[Any], Any]) -> None:
    """Change a JSON file of the bundle and bring the inventory up to date."""
    edit(root / path, change)
    relist(root, path)
