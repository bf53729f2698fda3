"""CTR, the sidecar's part: the keys that the runtime reads, and the names by which the pair is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from forgepack.json_values import equal_json
from forgepack.verify.checks.binding import must_state
from forgepack.verify.checks.target_record import named_export
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import row, rule

_KEYS: dict[str, tuple[type, ...]] = {
    "W": (int,),
    "T": (int,),
    "R": (int,),
    "RP": (int,),
    "resid_scale": (float, int),
    "lut_f": (dict,),
    "feat_scale": (float, int),
    "export": (str,),
    "target_export": (str,),
    "head_export": (str,),
    "mask_scale": (float, int),
    "mb": (int,),
    "entries": (dict,),
}


@rule(
    "CTR002",
    title="the sidecar holds every key that the runtime reads, of its type",
    why="the runtime fails, or falls back to a default, on a key that it does not find",
    remedy="emit the package again",
    needs=("sidecar",),
)
def runtime_keys(pair: Pair) -> Iterator[Finding]:
    """Each key of the runtime's sidecar is there and of its type; true and false are not numbers."""
    sidecar = pair.sidecar.value
    for key, kinds in _KEYS.items():
        value = sidecar.get(key)
        if isinstance(value, bool) or not isinstance(value, kinds):
            where = pair.place(pair.layout.sidecar, key)
            found = "nothing" if key not in sidecar else f"{type(value).__name__} {value}"
            yield differing(f"key {key} of the sidecar", where, expected=kinds[0].__name__, found=found)


@rule(
    "CTR003",
    title="window, block and rows of the sidecar are the profile's",
    why="the host sizes ring, masks and positions by them",
    remedy="emit the package again",
    needs=("sidecar",),
    after=("CTR002",),
)
def dimensions(pair: Pair) -> Iterator[Finding]:
    """W, T, R and RP of the sidecar are window, block, context rows and prefill rows of the profile."""
    geometry, sidecar = pair.profile.geometry, pair.sidecar.value
    expected = {
        "W": geometry.window,
        "T": geometry.block,
        "R": geometry.context_rows,
        "RP": geometry.prefill_rows,
    }
    for key, value in expected.items():
        if not equal_json(sidecar.get(key), value):
            where = pair.place(pair.layout.sidecar, key)
            yield differing(f"{key} of the sidecar", where, expected=value, found=sidecar.get(key))


@rule(
    "CTR004",
    title="sidecar and manifest name one target export",
    fails="sidecar and manifest name two target exports",
    why="the release check pairs by these names; another name is another head, or an export that was renamed",
    remedy="emit the package for this target",
    needs=("sidecar", "manifest"),
    after=("CTR060",),
)
def export_names(pair: Pair) -> Iterator[Finding]:
    """Last part of target_export and parent of head_export are manifest.export, but for a basis or an attestation."""
    manifest = pair.manifest.value
    if manifest.basis is not None:
        return  # a rotated target legally keeps an unrotated base's head: that pair is bound by digest alone
    names, expected = {"target_export": _last_part, "head_export": _parent_name}, named_export(pair)
    for key, part in names.items():
        found = part(pair.sidecar.value.get(key))
        if found != expected:
            where = pair.place(pair.layout.sidecar, key)
            yield differing(f"{key} of the sidecar", where, expected=expected, found=found)


def _last_part(value: Any) -> Any:
    return PurePosixPath(value).name if isinstance(value, str) else value


def _parent_name(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    path = PurePosixPath(value)
    return path.parent.name if path.name == "lm_head.safetensors" else value


@rule(
    "CTR005",
    title="the export folder is the one that the manifest names",
    why="parts that are apart may belong to two targets",
    remedy="name the export that the build was made from, or give its folder that name",
    needs=("manifest", "export_tree"),
    waivable=True,
)
def export_folder(pair: Pair) -> Iterator[Finding]:
    """The export's folder has the name of manifest.export, unless the manifest names a basis."""
    manifest, folder = pair.manifest.value, pair.sources.target.export
    if manifest.basis is None and folder is not None and folder.name != manifest.export:
        yield differing("export folder", "export", expected=manifest.export, found=folder.name)


@rule(
    "CTR007",
    title="the binding is of a kind and version that this tool knows",
    why="an unknown kind is never taken for a known one: its fields may mean something else",
    remedy="use the forgepack that wrote the package, or emit it again",
    needs=("binding",),
)
def known_kind(pair: Pair) -> Iterator[Finding]:
    """The binding's schema is of a version that this tool reads; what it does not say fails too."""
    from forgepack.artifacts.sidecar import KIND

    error = KIND.refusal(pair.binding.value, where="forgepack")
    if error is not None:
        where = pair.place(pair.layout.sidecar, "forgepack.schema")
        message = f"{error.what}; {error.hint}"
        yield differing("forgepack.schema", where, expected=error.expected, found=error.found, message=message)


@rule(
    "CTR009",
    title="the binding's runtime settings are the profile's",
    why="another compile mode, gap or thread count is another speed, and on some devices other results",
    remedy="emit the package again",
    needs=("binding",),
)
def runtime(pair: Pair) -> Iterator[Finding]:
    """Compile mode, draft gap and host threads are the profile's."""
    settings = pair.profile.runtime
    expected = {
        "compile_mode": settings.compile_mode,
        "draft_gap_ms": settings.draft_gap_ms,
        "host_threads": settings.host_threads,
    }
    return must_state(pair, "runtime", expected)


@rule(
    "CTR030",
    title="the sidecar follows its schema",
    why="a field that is missing, unknown or of another type is one that some reader takes otherwise",
    remedy="emit the package again",
    depth="hash",
    needs=("binding", "sidecar"),
    after=("CTR002", "CTR007"),
)
def schema(pair: Pair) -> Iterator[Finding]:
    """The sidecar as a whole is valid under schemas/sidecar.schema.json."""
    from forgepack.schema_check import schema_faults

    for fault in schema_faults(dict(pair.sidecar.value), "sidecar"):
        where = pair.place(pair.layout.sidecar, fault.path)
        yield differing(f"sidecar {fault.path}", where, expected=fault.expected, found=fault.found)


ROWS = (
    row(
        "CTR008",
        lambda pair: must_state(pair, "profile", {"name": pair.profile.name, "sha256": pair.profile.digest}),
        demand="Name and digest of the binding's profile are those of the profile that it is checked by.",
        title="the package was made for the profile that it is checked by",
        fails="the package was made for another profile",
        why="a sidecar that names another profile was measured against other numbers; it is never its own measure",
        remedy="name the package's profile by --profile, or emit the package for this one",
        needs=("binding",),
    ),
)
