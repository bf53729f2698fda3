"""A profile is the data that a release pins: geometry, recipe, repository, commit, known-bad digests.

Profiles are JSON files in ``forgepack/profiles``; a new release is a new file, not new code. ``--profile`` takes
a name from there or a path that ends in ``.json``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from forgepack.canonical import digest_json, parse_object
from forgepack.closest import did_you_mean
from forgepack.document import DocumentKind
from forgepack.errors import ForgepackError, UsageError
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


_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_BYTES = SMALL_FILE
# What JSON may hold where a field is annotated so; of a tuple each item is judged.
_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "str | None": (str, type(None)),
    "Upstream | None": (Upstream, type(None)),
    "tuple[int, ...]": (int,),
    "tuple[str, ...]": (str,),
    "Mapping[str, str]": (dict,),
}
T = TypeVar("T", HubPin, Geometry, Recipe, Runtime, TargetPin, Upstream)


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
        return parse_profile(parse_object(data, where=name))
    except UsageError:
        raise
    except ForgepackError as err:
        raise UsageError(
            f"the profile is not valid: {err.what}",
            where=name,
            expected=err.expected,
            found=err.found,
            hint=err.hint,
        ) from err
    except (KeyError, TypeError, ValueError) as err:
        raise UsageError("the profile is not valid", where=name, found=str(err)) from err


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


def _typed(value: T) -> T:
    """Return a parsed part if each field is of its type; TypeError names the first that is not."""
    for one in fields(value):
        found = getattr(value, one.name)
        items = found if isinstance(found, tuple) else (found,)
        kinds = _KINDS[str(one.type)]
        if not all(type(item) in kinds for item in items):
            raise TypeError(f"{one.name}: {found!r:.80} is no {one.type}")
    return value


def parse_profile(raw: dict[str, Any]) -> Profile:
    """Build a Profile from its JSON object; a missing, unknown or ill-typed key raises KeyError or TypeError."""
    digest, raw = digest_json(raw), KIND.current(raw, where="profile")
    hub, target = raw["hub"], raw["target"]
    for key in ("name", "package", "licence"):
        if not isinstance(raw[key], str):
            raise TypeError(f"{key}: {raw[key]!r:.80} is no text")
    return Profile(
        name=raw["name"],
        package=raw["package"],
        licence=raw["licence"],
        hub=_typed(_parse_hub(hub)),
        geometry=_typed(parse_geometry(raw["geometry"])),
        recipe=_typed(Recipe(**raw["recipe"])),
        runtime=_typed(Runtime(**raw["runtime"])),
        target=_typed(_parse_target(target)),
        known_bad=dict(raw["known_bad"]),
        withdrawn=dict(raw["withdrawn"]),
        digest=digest,
    )


def _parse_hub(raw: dict[str, Any]) -> HubPin:
    files, optional, sha256 = tuple(raw["files"]), tuple(raw["optional_files"]), raw["sha256"]
    if not isinstance(sha256, dict):
        raise TypeError(f"hub.sha256: {sha256!r:.80} is not an object")
    for path, digest in sha256.items():
        if path not in (*files, *optional):
            raise ValueError(f"hub.sha256: {path!r:.80} is not among hub.files")
        if not isinstance(digest, str) or _SHA256.fullmatch(digest) is None:
            raise ValueError(f"hub.sha256: {digest!r:.80} is not 64 lower-case hex digits")
    return HubPin(**{**raw, "files": files, "optional_files": optional, "sha256": sha256})


def _parse_target(raw: dict[str, Any]) -> TargetPin:
    upstream = _typed(Upstream(**raw["upstream"])) if "upstream" in raw else None
    return TargetPin(**{**raw, "eos_tokens": tuple(raw["eos_tokens"]), "upstream": upstream})
