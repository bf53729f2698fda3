"""CTR, the files as a whole: those of model/ that the pair is bound to, and all that nothing binds or checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.model_files import BOUND, model_file_record
from forgepack.artifacts.release_json import RELEASE_FILE
from forgepack.artifacts.tree import JUNK
from forgepack.json_values import equal_json_strict
from forgepack.verify.checks.binding import bound, stated_at
from forgepack.verify.checks.coverage import by_tools, covering
from forgepack.verify.checks.release_files import present_files
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.inputs.version_1 import is_of_version_1
from forgepack.verify.policy.rule import rule

_RECORD = "target.model_files"
_SHOWN = 5
_TREES = {
    "drafter": "tree",
    "model": "model_tree",
    "coreai": "build_tree",
    "export": "export_tree",
    "checkpoint": "checkpoint_tree",
    "quant": "quant_tree",
}


def _unbound(pair: Pair) -> bool:
    """Whether the statement about the target is of version 1, which binds no files of model/."""
    attestation = pair.target_record.value.attestation
    older = is_of_version_1(pair.written_sidecar) if attestation is None else attestation.older
    return older and not isinstance(bound(pair, _RECORD), Mapping)


def _model_records(pair: Pair) -> Mapping[str, Any]:
    stated = bound(pair, _RECORD)
    return stated if isinstance(stated, Mapping) else {}


def _present(pair: Pair) -> dict[str, Path]:
    root = pair.sources.target.model
    there = {entry.path for entry in pair.model_tree.value if entry.kind in ("file", "link")}
    return {name: root / name for name in BOUND if name in there}


@rule(
    "CTR080",
    title="the files of model/ are those that the pair was bound to",
    fails="files of model/ are NOT those that the pair was bound to",
    why="another vocabulary beside the same tokenizer.json gives other ids to the tool that reads it",
    remedy="use the target that the package was emitted for, or emit it for this one",
    depth="hash",
    needs=("binding", "model_tree", "digests"),
    after=("CTR060", "CTR067", "FMT", "PATH", "TOK02"),
    since=2,
    closes="other files of model/ than the bound ones passed",
)
def bound_model_files(pair: Pair) -> Iterator[Finding]:
    """Each file that the sidecar lists is there with its content, and no other of them is."""
    if _unbound(pair):
        return
    record, stated, present = bound(pair, _RECORD), _model_records(pair), _present(pair)
    if not isinstance(record, Mapping):
        yield differing(_RECORD, stated_at(pair, _RECORD), expected="a record of each file", found=record)
    for name in sorted({*stated, *present}):
        where = pair.place(pair.sources.target.model / name)
        if name not in present or name not in stated:
            expected, found = ("the file", "no file") if name in stated else ("no such file", "a file")
            message = f"stated in {stated_at(pair, _RECORD)}"
            yield differing("file of the target", where, expected=expected, found=found, message=message)
        else:
            yield from _content(pair, name, present[name], stated[name])


def _content(pair: Pair, name: str, path: Path, record: Any) -> Iterator[Finding]:
    """Yield how a file's content differs from its record: by meaning where it has one, else by bytes."""
    digest = pair.digests.value.get(path)
    found = None if digest is None else model_file_record(path, digest.bytes, digest.sha256)
    key = "sha256" if found is None or "content_sha256" not in found else "content_sha256"
    stated = record.get(key) if isinstance(record, Mapping) else record
    if found is None or stated != found[key]:
        message = f"stated in {stated_at(pair, f'{_RECORD}.{name}')}"
        other = "not known" if found is None else found[key]
        yield differing(f"content of {name}", pair.place(path), expected=stated, found=other, message=message)


@rule(
    "CTR081",
    title="the files of model/ were not written again, and generation's settings are the bound ones",
    fails="files of model/ were written again, or generation's settings are NOT the bound ones",
    why="equal content in other bytes is legal, and so are other sampling settings, but neither is the released one",
    remedy="restore the file from the target's release",
    severity="warning",
    depth="hash",
    needs=("binding", "model_tree", "digests"),
    after=("CTR080", "TOK024"),
    since=2,
)
def model_file_bytes(pair: Pair) -> Iterator[Finding]:
    """Each file of model/ that the sidecar lists has its bytes."""
    stated, present = _model_records(pair), _present(pair)
    for name in sorted(set(stated) & set(present)):
        digest = pair.digests.value.get(present[name])
        record = stated[name] if isinstance(stated[name], Mapping) else {}
        if digest is not None and not equal_json_strict(
            (digest.bytes, digest.sha256), (record.get("bytes"), record.get("sha256"))
        ):
            where = pair.place(present[name])
            yield differing(f"bytes of {name}", where, expected=record.get("sha256"), found=digest.sha256)


@rule(
    "CTR082",
    title="every file beside the release is on a list",
    fails="there are files that no list of the release names",
    why="a script or model at the root travels with the release, and nothing says where it is from",
    remedy="remove it, or keep it outside the release",
    severity="warning",
    needs=("release", "bundle_tree"),
    after=("CTR040", "PATH001"),
    since=2,
)
def root_files(pair: Pair) -> Iterator[Finding]:
    """Every file and folder outside the component folders is listed, or of a kind that known tools put there."""
    release = pair.release.value
    roots = tuple(release.roots.values())
    listed = {RELEASE_FILE, *(file.path for file in release.files)}
    told = ""
    for entry in pair.bundle_tree.value:
        path = entry.path
        inside = any(path == root or path.startswith(f"{root}/") for root in roots)
        above = entry.kind == "folder" and any(f"{root}/".startswith(f"{path}/") for root in roots)
        if inside or above or path in listed or by_tools(path) is not None or (told and path.startswith(told)):
            continue
        if path == "config.json" and _is_model_config(pair):
            continue  # the hub counts downloads by it
        told = f"{path}/" if entry.kind == "folder" else told
        found = "a folder that is not listed" if entry.kind == "folder" else "a file that is not listed"
        yield differing(path, f"bundle/{path}", expected="only listed files", found=found)


def _is_model_config(pair: Pair) -> bool:
    root, copy = pair.sources.target.model / "config.json", pair.bundle_tree
    path = pair.sources.bundle / "config.json" if pair.sources.bundle is not None else None
    there = path is not None and copy.available and "config.json" in present_files(pair)
    if not there or path is None or not root.is_file():
        return False
    return path.stat().st_size == root.stat().st_size and hash_file(path) == hash_file(root)


@rule(
    "CTR083",
    title="every file is checked by what it means",
    fails="some files are bound by digest alone; their meaning is not checked",
    why="what is bound and not read is the file that was bound, and no more",
    remedy="nothing: these are the limits of what a verification can say",
    severity="note",
    since=2,
)
def not_judged(pair: Pair) -> Iterator[Finding]:
    """No file of the parts that are here is only bound, or left alone."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path in _all_files(pair):
        reason = covering(path).reason
        if reason:
            groups[reason].append(path)
    for reason, paths in sorted(groups.items()):
        few = len(paths) <= _SHOWN
        listed = ", ".join(paths) if few else f"{len(paths)} files, {paths[0]} to {paths[-1]}"
        yield differing(listed, paths[0], expected="checked", found="not checked", message=reason)


def _all_files(pair: Pair) -> Iterator[str]:
    """Yield every file of the parts, by its place; the root of a bundle last."""
    for role, name in _TREES.items():
        tree = pair.input(name)
        for entry in tree.value if tree.available else ():
            if entry.kind != "folder" and not JUNK.search(entry.path):
                yield f"{role}/{entry.path}"
    if pair.release.available and pair.bundle_tree.available:
        yield from sorted(path for path in present_files(pair) if "/" not in path and by_tools(path) is None)


@rule(
    "CTR084",
    title="the binding covers every file that a binding can cover today",
    why="a sidecar of version 1 has no place for these files: they may be others than at emission",
    remedy="emit the package again: its sidecar then binds them",
    severity="note",
    needs=("binding",),
    since=2,
)
def bound_by_version_1(pair: Pair) -> Iterator[Finding]:
    """The sidecar binds the files of model/, and what it lists of an export was read when it was bound."""
    if _unbound(pair) and pair.model_tree.available:
        for name, path in _present(pair).items():
            yield differing(name, pair.place(path), expected="a record of the file", found="not bound by version 1")
    if pair.export_files.available:
        for fault in pair.export_files.value.bound_unread:
            where = pair.show(fault.where or "")
            yield differing(
                "file of the export", where, expected=fault.expected, found=fault.found, message=fault.what
            )
