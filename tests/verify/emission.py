"""What emission says of a pair's inputs, without writing a package; and a sidecar brought up to date by a forger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forgepack.artifacts.target import locate_target
from forgepack.canonical import dump_canonical
from forgepack.emit.inputs import Identity, identify
from forgepack.emit.sidecar_content import identity_digest
from forgepack.facts.files import file_record
from forgepack.verify.emission import InputPaths, open_inputs
from tests.verify.factory import tiny_profile
from tests.verify.sabotage import ASSET, SIDECAR


def identified(root: Path) -> Identity:
    """Judge checkpoint, quant and target below ``root`` as emission does; raises what it raises."""
    target = root / "target"
    parts = locate_target(target)
    paths = InputPaths(quant=root / "quant", checkpoint=root / "checkpoint", target=parts, root=target)
    inputs, _ = open_inputs(paths, root / "new", tiny_profile())
    return identify(inputs, tiny_profile())


def forge_binding(root: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the sidecar's binding, and bring every digest of it up to date, as one would who has the tool."""
    sidecar = json.loads((root / SIDECAR).read_bytes())
    change(sidecar["forgepack"])
    metadata = root / ASSET / "metadata.json"
    raw = json.loads(metadata.read_bytes())
    raw["creatorDefinedMetadata"]["forgepack"]["sidecar_sha256"] = identity_digest(sidecar)
    metadata.write_bytes(dump_canonical(raw))
    files = sidecar["forgepack"]["package"]["files"]
    if files:
        name = metadata.relative_to(root / "drafter").as_posix()
        files[name] = file_record(metadata)
    (root / SIDECAR).write_bytes(dump_canonical(sidecar))
