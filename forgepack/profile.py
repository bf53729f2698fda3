"""A profile is the data that a release pins: geometry, recipe, repository, commit, known-bad digests.

Profiles are JSON files in ``forgepack/profiles``; a new release is a new file, not new code. ``--profile`` takes
a name from there or a path that ends in ``.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from forgepack.canonical import digest_json, parse_object
from forgepack.closest import did_you_mean
from forgepack.document import DocumentKind
from forgepack.errors import CorruptError, LimitError, UsageError
from forgepack.geometry import Geometry, parse_geometry
from forgepack.limits import SMALL_FILE

DEFAULT_PROFILE = "qwen3.8-27b-dflash2"


def _from_version_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a profile of version 1 in today's form: it pins a commit, and no file's digest."""
    return {**raw, "hub": {**raw["hub"], "sha256": {}}}


KIND = DocumentKind(
    name="forgepack.profile",
    title="profile",
    remake="write the profile anew, after one of forgepack/profiles",
    code="profile",
    version=2,
    upgrade=_from_version_1,
    form="profile",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubPin:
    """Where the checkpoint comes from: repository, full commit, and the only files to take.

    ``sha256`` pins files by path; where a file is pinned, no other is fetched, adopted or read. Profiles of version 1
    pin none.
    """

    repo: str
    commit: str
    files: tuple[str, ...]
    optional_files: tuple[str, ...]
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def pins_all(self) -> bool:
        """Whether the digest of every required file is pinned: then the bytes need no other proof."""
        return set(self.files) <= set(self.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How the drafter is quantized and which folds the package carries (contract, sections 3 and 4)."""

    variant: str
    mask_scale: float
    damping: float
    gptq_block: int
    lloyd_iterations: int
    lloyd_samples: int
    resid_scale: float
    lut_fold_down: float
    lut_fold_default: float
    feat_scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Settings that the host must use with the package."""

    compile_mode: int
    draft_gap_ms: int
    host_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The checkpoint that a target was converted from: its name on the hub and the revision that was taken."""

    id: str
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPin:
    """What the profile knows of the target: its tokenizer, end tokens, mask token text, licence, upstream."""

    name: str
    tokenizer_sha256: str | None
    used_tokens: int
    mask_token_text: str
    eos_tokens: tuple[int, ...]
    licence: str
    upstream: Upstream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One release, as data. ``known_bad`` maps a file's sha256 to the reason why it is refused."""

    name: str
    package: str
    licence: str
    hub: HubPin
    geometry: Geometry
    recipe: Recipe
    runtime: Runtime
    target: TargetPin
    known_bad: dict[str, str]
    withdrawn: dict[str, str]
    digest: str


_MAX_BYTES = SMALL_FILE


def profile_names() -> list[str]:
    """Return the names of the profiles that ship with the tool."""
    folder = resources.files("forgepack") / "profiles"
    return sorted(f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json"))


def load_profile(name: str = DEFAULT_PROFILE) -> Profile:
    """Load a shipped profile by name or any profile by its path; raise UsageError when that can't be."""
    if name.endswith(".json"):
        data = _read_file(Path(name))
    elif name in profile_names():
        data = (resources.files("forgepack") / "profiles" / f"{name}.json").read_bytes()
    else:
        hint = did_you_mean(name, profile_names(), otherwise=f"one of: {', '.join(profile_names())}")
        raise UsageError("no such profile", found=name, hint=hint)
    try:
        return parse_profile(parse_object(data, where=name), where=name)
    except (CorruptError, LimitError) as err:
        raise UsageError(err.what, where=err.where, expected=err.expected, found=err.found, hint=err.hint) from err


def _read_file(path: Path) -> bytes:
    """Return the bytes of a profile; a pipe or device is never opened, nothing over a megabyte is read."""
    try:
        if not path.is_file():
            found = "no regular file" if path.exists() else "No such file or directory"
            raise UsageError("the profile can't be read", where=str(path), found=found)
        with path.open("rb") as handle:
            data = handle.read(_MAX_BYTES + 1)
    except OSError as err:
        raise UsageError("the profile can't be read", where=str(path), found=err.strerror) from err
    if len(data) > _MAX_BYTES:
        raise UsageError("the profile is over the limit", where=str(path), expected=f"at most {_MAX_BYTES} bytes")
    return data


def parse_profile(raw: dict[str, Any], *, where: str = "profile") -> Profile:
    """Build a Profile from its JSON object; CorruptError names the first field that is not as it must be."""
    current = KIND.judged(raw, where=where)
    hub, target = current["hub"], current["target"]
    upstream = Upstream(**target["upstream"]) if "upstream" in target else None
    _check_pins(hub, where)
    return Profile(
        **{key: current[key] for key in ("name", "package", "licence", "known_bad", "withdrawn")},
        hub=HubPin(**{**hub, "files": tuple(hub["files"]), "optional_files": tuple(hub["optional_files"])}),
        geometry=parse_geometry(current["geometry"]),
        recipe=Recipe(**current["recipe"]),
        runtime=Runtime(**current["runtime"]),
        target=TargetPin(**{**target, "eos_tokens": tuple(target["eos_tokens"]), "upstream": upstream}),
        digest=digest_json(raw),
    )


def _check_pins(hub: Mapping[str, Any], where: str) -> None:
    """Check what the schema can't say: each pin is of a file that is taken, so that a typing error pins nothing."""
    for path in hub["sha256"]:
        if path not in (*hub["files"], *hub["optional_files"]):
            raise CorruptError(
                "the profile is not valid",
                where=f"{where}: hub.sha256",
                expected="paths among hub.files and hub.optional_files",
                found=repr(path)[:80],
                hint=KIND.remake,
                code=KIND.code,
            )
