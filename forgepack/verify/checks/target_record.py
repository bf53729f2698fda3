"""Choose the target record to compare with: the sidecar's, or that of an attestation.

This is the one place where it is chosen. Every rule reads the record through ``checks.binding`` and checks the found
target by all of it, so the choice can't make a wrong pair pass: it only decides which statement the report names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.errors import ForgepackError
from forgepack.facts import target as facts
from forgepack.facts.fact import Fact
from forgepack.json_values import equal_json, lookup
from forgepack.verify.checks.files import describe, target_file
from forgepack.verify.inputs.input_set import never
from forgepack.verify.inputs.pair import Pair, TargetRecord
from forgepack.verify.inputs.reading import Input, UnavailableError

NO_ATTESTATION = "no --attestation was given"
NO_EVIDENCE = "no --evidence was given"
REFACTORED = "an attested target's head has the same content in other tables; HEAD003 compares the content"


def choose_target_record(pair: Pair) -> TargetRecord:
    """Return the record that the found target differs least from; the sidecar's where two differ alike."""
    own = TargetRecord(
        target=pair.binding.value.get("target"), place=pair.place(pair.layout.sidecar, "forgepack.target")
    )
    if not pair.attestations.available:
        return own
    others = [
        TargetRecord(target=a.target, place=f"{a.name}: target", attestation=a) for a in pair.attestations.value
    ]
    return min((own, *others), key=lambda record: len(list(differing_parts(pair, record.target))))


def differing_parts(pair: Pair, record: Any) -> Iterator[str]:
    """Yield what of the found target is not as a record states it, as far as the pair's depth sees."""
    for name, read in _header_parts(pair):
        if not _holds(functools.partial(_states, record, read)):
            yield name
    yield from _files(pair, lookup(record, "files"))


def _header_parts(pair: Pair) -> Iterator[tuple[str, Callable[[], Iterator[Fact]]]]:
    """Yield (name, facts) of each part of the target that headers show."""
    if pair.manifest.available:
        manifest = pair.manifest.value
        yield "export", lambda: facts.export_facts(manifest)
        yield "manifest", lambda: facts.manifest_facts(manifest)
    if pair.target_config.available:
        yield "config", lambda: facts.config_facts(pair.target_config.value)
    if pair.head.available:
        yield "head", lambda: facts.head_header_facts(pair.head.value)
    if pair.embedding.available:
        yield "mask row", lambda: facts.mask_row_facts(pair.embedding.value, pair.profile.geometry)
    if pair.manifest.available:
        yield "basis", lambda: facts.basis_facts(pair.manifest.value, pair.sources.target)


def _files(pair: Pair, files: Any) -> Iterator[str]:
    if pair.depth < pair.digests.depth or not pair.digests.available or not isinstance(files, Mapping):
        return
    for path, record in sorted(files.items()):
        file = target_file(pair, path)
        if file is not None and not _holds(functools.partial(_is_as_recorded, pair, file, record)):
            yield path


def _is_as_recorded(pair: Pair, file: Path, record: Any) -> bool:
    return equal_json(describe(pair, file), record)


def _states(record: Any, read: Callable[[], Iterator[Fact]]) -> bool:
    return all(equal_json(fact.value, lookup(record, fact.path)) for fact in read())


def _holds(check: Callable[[], bool]) -> bool:
    """Return what a check says; a part that can't be read is not as recorded, and its own reader reports it."""
    try:
        return check()
    except ForgepackError:
        return False


def named_export(pair: Pair) -> Any:
    """Return the export that the sidecar's runtime keys must name: an attested target's package keeps its own."""
    if pair.binding.available and pair.target_record.value.attestation is not None:
        return lookup(pair.binding.value, "target.export")
    return pair.manifest.value.export


def emitted_head(pair: Pair) -> SafetensorsFile:
    """Return the export's head where its tensors are those that the package was emitted from.

    An attested target's head has the same content, but perhaps in other tables and scales: it is legally not there.
    """
    head = pair.head.value
    if not pair.binding.available or pair.target_record.value.attestation is None:
        return head
    own, attested = pair.binding.value.get("target"), pair.target_record.value.target
    if not equal_json(lookup(attested, "head.tensors"), lookup(own, "head.tensors")):
        raise UnavailableError(Input("emitted_head", never, absent=REFACTORED))
    return head
