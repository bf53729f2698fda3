"""Edits of what lock, report and sidecar state of their sources: adopted or fetched, evidence, bound or unbound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, get_args

from forgepack.artifacts.lock import LOCK_NAME, Evidence
from tests.mutation.stage import Mutant, Stage

SUBJECT = "adopted sources"
_CALIBRATION = ("forgepack", "quantization", "calibration")
Keys = tuple[str | int, ...]


def adopted_mutants(stage: Stage) -> Iterator[Mutant]:
    """Yield each statement with every other value that it could have, a text in its place, and without it."""
    sidecar, lock = f"drafter/{stage.profile.package}.json", f"checkpoint/{LOCK_NAME}"
    for keys in (("forgepack", "checkpoint", "adopted"), (*_CALIBRATION, "traces", "bound")):
        yield from _edits(stage, sidecar, keys)
    yield from _edits(stage, "quant/report.json", ("inputs", "calibration", "bound"))
    yield from _edits(stage, lock, ("adopted",))
    for number in range(len(json.loads((stage.root / lock).read_bytes())["files"])):
        yield from _edits(stage, lock, ("files", number, "evidence"), others=(*get_args(Evidence), None))


def _edits(stage: Stage, file: str, keys: Keys, others: tuple[Any, ...] = (True, False)) -> Iterator[Mutant]:
    data = (stage.root / file).read_bytes()
    *path, last = keys
    node = json.loads(data)
    for key in path:
        node = node[key]
    place = f"{file}.{'.'.join(map(str, keys))}"
    for value in (*others, "false"):
        if value != node[last]:
            make = partial(_edited, data, keys, value)
            yield Mutant(subject=SUBJECT, place=place, kind=f"{value}", areas=("SRC",), file=file, make=make)


def _edited(data: bytes, keys: Keys, value: Any) -> bytes:
    raw = json.loads(data)
    node = raw
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = value
    return json.dumps(raw).encode()
