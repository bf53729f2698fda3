"""CTR, the release's part: release.json demands what Forge's release check demands, and the folder fulfils it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations

from forgepack.artifacts.release_json import (
    DOCUMENTATION,
    DOCUMENTS,
    MODEL_FILES,
    MODEL_REQUIRED,
    RELEASE_FILE,
    Release,
    needs_notice,
)
from forgepack.artifacts.tree import collisions
from forgepack.escaping import told_apart
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.checks.files import line_ends
from forgepack.verify.checks.release_files import left_out, listed_files, present_files, unlisted_files
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_BUNDLE = "write the bundle again with forgepack bundle"
_DOWNLOAD = "download the file again at the release's commit, or write the bundle again"
_FORM = ("CTR040", "PATH001")


def _stated(part: str) -> str:
    return f"bundle/{RELEASE_FILE}: {part}"


@rule(
    "CTR041",
    title="each file of the release is in the folder of its component, once",
    why="a file outside its component is checked by no component's rules; of two entries one is never compared",
    remedy=_BUNDLE,
    needs=("release",),
    after=_FORM,
)
def components(pair: Pair) -> Iterator[Finding]:
    """Component folders are distinct and not nested, each file is inside its own, and no path is listed twice."""
    release = pair.release.value
    for (name, root), (other, second) in combinations(sorted(release.roots.items()), 2):
        if root == second or f"{root}/".startswith(f"{second}/") or f"{second}/".startswith(f"{root}/"):
            found = f"{root}, {second}"
            yield differing("component folders", _stated(name), expected=f"apart from {other}", found=found)
    yield from _placed(release)
    paths, entry, where = Counter(file.path for file in release.files), "entry of the inventory", _stated("files")
    for path in sorted(path for path, count in paths.items() if count > 1):
        yield differing(entry, where, expected="one entry a path", found=f"{paths[path]} entries of {path}")
    for first, second in collisions(paths):
        yield differing(entry, where, expected="names that differ everywhere", found=f"{first}, {second}")


def _placed(release: Release) -> Iterator[Finding]:
    roots = release.roots
    for file in release.files:
        root = roots.get(file.component)
        if file.component == DOCUMENTATION:
            continue
        if root is None or not file.path.startswith(f"{root}/"):
            expected = f"below {root}/" if root else f"a component of the release, not {file.component}"
            yield differing("place of a file", _stated("files"), expected=expected, found=file.path)


@rule(
    "CTR042",
    title="the release has its five documents, listed and not blank",
    fails="documents of the release are missing, not listed or blank",
    why="they carry the terms and say what was changed; a release without them may not be passed on",
    remedy=_BUNDLE,
    needs=("release", "bundle_tree"),
    after=_FORM,
    waivable=True,
)
def documents(pair: Pair) -> Iterator[Finding]:
    """Component documentation is exactly the five files at the root, and each holds text."""
    listed = {file.path for file in pair.release.value.of(DOCUMENTATION)}
    for name in sorted({*DOCUMENTS, *listed}):
        if name not in listed:
            yield differing("document of the release", _stated("files"), expected=name, found="not listed")
        elif name not in DOCUMENTS:
            expected = f"only {', '.join(DOCUMENTS)}"
            yield differing("document of the release", _stated("files"), expected=expected, found=name)
    root = pair.sources.bundle
    assert root is not None
    for name in DOCUMENTS:
        if name in present_files(pair) and not (root / name).read_bytes().strip():
            yield differing(name, f"bundle/{name}", expected="a text", found="a blank file")


@rule(
    "CTR043",
    title="every converted file carries a modification notice",
    why="the licence demands that changed files say so prominently",
    remedy=_BUNDLE,
    needs=("release",),
    after=_FORM,
    waivable=True,
)
def notices(pair: Pair) -> Iterator[Finding]:
    """The embedding and each file of build, export and drafter that is not text has a notice that is not blank."""
    release = pair.release.value
    for file in release.files:
        if needs_notice(file.path, file.component, release.model_path) and not (file.notice or "").strip():
            where = _stated(f"files: {file.path}")
            yield differing("modification notice", where, expected="a text", found=file.notice)


@rule(
    "CTR044",
    title="model/ holds config, tokenizer and embedding, and nothing that it may not hold",
    fails="model/ lacks config, tokenizer or embedding, or holds what it may not",
    why="original weight shards would be passed on by mistake, and a runtime without its four files can't start",
    remedy=_BUNDLE,
    needs=("release",),
    after=_FORM,
)
def model_files(pair: Pair) -> Iterator[Finding]:
    """The inventory's files of model are among the twelve that are allowed, the four required ones included."""
    release = pair.release.value
    root, where = release.model_path, _stated("files")
    names = {file.path.removeprefix(f"{root}/") for file in release.of("model")}
    for name in sorted(set(MODEL_REQUIRED) - names):
        yield differing("file of model", where, expected=f"{root}/{name}", found="not listed")
    for name in sorted(names - set(MODEL_FILES)):
        yield differing("file of model", where, expected=f"one of {', '.join(MODEL_FILES)}", found=name)


@rule(
    "CTR045",
    title="the release's files are all there, and its folders hold no others",
    fails="files of the release are missing, or others are in its folders",
    why="a missing file stops the runtime; one that no digest covers may be loaded in place of a listed one",
    remedy=_DOWNLOAD,
    needs=("release", "bundle_tree"),
    after=_FORM,
)
def same_files(pair: Pair) -> Iterator[Finding]:
    """Every listed file of the parts that are here exists, and component folders hold no file that is not listed."""
    present = present_files(pair)
    for file in listed_files(pair):
        if file.path not in present:
            hint = "--plain looks at the target alone" if file.component == "drafter" else _twin(file.path, present)
            expected = f"{file.bytes} bytes"
            yield differing(file.path, f"bundle/{file.path}", expected=expected, found="no such file", message=hint)
    for component, path in unlisted_files(pair):
        expected = f"only listed files in {component}"
        yield differing(path, f"bundle/{path}", expected=expected, found="a file that is not listed")


def _twin(path: str, present: Iterable[str]) -> str:
    """Return a word on a file that is here under a name that looks like a missing one's."""
    found = next((other for other in present if other != path and collisions((path, other))), None)
    name, other = told_apart(path, found or "")
    return "" if found is None else f"'{other}' is here, which is another name than '{name}'"


@rule(
    "CTR046",
    title="every file has the size that release.json lists",
    fails="files do NOT have the size that release.json lists",
    why="another size is a cut download, or a file that was written again",
    remedy=_DOWNLOAD,
    needs=("release", "bundle_tree"),
    after=_FORM,
)
def sizes(pair: Pair) -> Iterator[Finding]:
    """The bytes of each listed file that is here are as many as listed."""
    root, present = pair.sources.bundle, present_files(pair)
    assert root is not None
    for file in listed_files(pair):
        if present.get(file.path, file.bytes) != file.bytes:
            found, message = f"{present[file.path]} bytes", line_ends(root / file.path, file.sha256)
            expected = f"{file.bytes} bytes"
            yield differing(file.path, f"bundle/{file.path}", expected=expected, found=found, message=message)


@rule(
    "CTR047",
    title="every file has the SHA-256 that release.json lists",
    fails="files do NOT have the SHA-256 that release.json lists",
    why="equal sizes hide an edited weight, another tokenizer, a rebuilt head",
    remedy=_DOWNLOAD,
    depth="hash",
    needs=("release", "bundle_tree", "digests"),
    after=(*_FORM, "CTR046"),
)
def digests(pair: Pair) -> Iterator[Finding]:
    """The SHA-256 of each listed file that is here is the listed one."""
    root, present, known = pair.sources.bundle, present_files(pair), pair.digests.value
    assert root is not None
    for file in listed_files(pair):
        digest = known.get(root / file.path)
        if file.path in present and (digest is None or digest.sha256 != file.sha256):
            found, message = (
                "not known" if digest is None else digest.sha256,
                line_ends(root / file.path, file.sha256),
            )
            yield differing(file.path, f"bundle/{file.path}", expected=file.sha256, found=found, message=message)


@rule(
    "CTR054",
    title="no part of the release is a link or a special file",
    fails="a part of the release is a link or a special file",
    why="a release must stand for itself: a link's target is another machine's",
    remedy=_BUNDLE,
    needs=("bundle_tree",),
)
def plain_entries(pair: Pair) -> Iterator[Finding]:
    """Documents, release.json and the component folders themselves are not links, pipes, sockets or devices."""
    root = pair.sources.bundle
    assert root is not None
    inside = [part for role, part in pair.sources.roots().items() if role not in ("bundle", "quant", "checkpoint")]
    for entry in pair.bundle_tree.value:
        path = root / entry.path
        if any(part in path.parents for part in inside):
            continue  # the rules of area PATH look into the parts
        if entry.kind == "special" or (entry.kind == "link" and not (pair.sources.allow_links and path.is_file())):
            found = f"a link to {entry.target}" if entry.kind == "link" else "a pipe, socket or device"
            yield differing(entry.path, f"bundle/{entry.path}", expected="a file or folder", found=found)


@rule(
    "CTR055",
    title="the release is here as a whole",
    why="what is not here is not verified",
    remedy="nothing, if the part is not needed; else download it",
    severity="note",
    needs=("release", "bundle_tree"),
)
def whole(pair: Pair) -> Iterator[Finding]:
    """No component of the release was left out of this copy."""
    for name, reason in sorted(left_out(pair).items()):
        yield differing(f"component {name}", f"bundle/{name}", expected="its files", found=reason)


ROWS = (
    reported_row(
        "CTR040",
        demand=(
            "schema_version is exactly 1; upstream, paths, runtimes, drafter and files are there, each of its type."
        ),
        title="release.json has the form of schema 1",
        why="a release check that can't read a field refuses the whole release, or skips what the field protects",
        remedy=_BUNDLE,
        each_of=("release",),
        codes=("release",),
    ),
)
