"""The five documents at a release's root: supplied ones as they are, the others written from what is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from forgepack.artifacts.release_json import DOCUMENTS, ReleaseFile
from forgepack.artifacts.release_record import UPSTREAM_FILE, upstream_record
from forgepack.canonical import dump_canonical
from forgepack.errors import MissingError
from forgepack.profile import Profile, Upstream
from forgepack.release.bundle.inventory import BundleInputs, read_optional_text

_CHANGES = {
    "model": (
        "config and tokenizer files are unchanged; embed_tokens_fp16.npy is the embedding of the checkpoint, "
        "converted to float16"
    ),
    "coreai": "layers, head and final norm, quantized and converted to Core AI packages",
    "export": "the quantized weights from which the Core AI packages were made",
    "drafter": (
        "weights quantized (LUT4 by GPTQ, INT8 kernel projections), folded, and converted to a Core AI package "
        "with the target's head and mask row; codebooks copied; config, LICENSE and NOTICE unchanged"
    ),
}


def compose_documents(
    inputs: BundleInputs, files: Sequence[ReleaseFile], profile: Profile, *, unproven: Sequence[str] = ()
) -> dict[str, bytes]:
    """Return all five documents by name; MissingError where the target's licence is not to be had.

    README and MODIFICATIONS repeat the sentences of ``unproven``: what is not proven of the drafter's sources.
    """
    supplied = {} if inputs.documents is None else _supplied(inputs.documents)
    licence, notice = (
        None if inputs.root is None else read_optional_text(inputs.root / n) for n in ("LICENSE", "NOTICE")
    )
    if licence is None and "LICENSE" not in supplied:
        raise MissingError(
            "the target's licence is missing",
            where=str((inputs.root or inputs.target.build.parent) / "LICENSE"),
            hint="put it at the target's release root, or name a folder with it by --documents",
            code="licence",
        )
    written = {
        "README.md": _readme(inputs.upstream, files, profile, unproven),
        "LICENSE": licence or b"",
        "NOTICE": _notice(inputs.upstream, profile, notice),
        UPSTREAM_FILE: dump_canonical(upstream_record(inputs.upstream, files, profile)),
        "MODIFICATIONS.md": _modifications(inputs.upstream, files, profile, unproven),
    }
    return {**written, **supplied}


def _supplied(folder: Path) -> dict[str, bytes]:
    found = {name: read_optional_text(folder / name) for name in DOCUMENTS}
    return {name: data for name, data in found.items() if data is not None}


def modification_notice(component: str, upstream: Upstream, profile: Profile) -> str:
    """Return the notice of a converted file: from what it was made, and where to read more."""
    source = (
        f"{profile.hub.repo} at {profile.hub.commit}, with the head of {upstream.id} at {upstream.revision}"
        if component == "drafter"
        else f"{upstream.id} at {upstream.revision}"
    )
    return f"Converted from {source}; see MODIFICATIONS.md."


def _notice(upstream: Upstream, profile: Profile, target: bytes | None) -> bytes:
    lines = [
        f"This release contains material of {upstream.id} at {upstream.revision}, under {profile.target.licence}",
        "(see LICENSE), converted and quantized: see MODIFICATIONS.md.",
        "",
        f"The drafter is made from {profile.hub.repo} at {profile.hub.commit}, under {profile.licence}",
        "(see drafter/LICENSE and drafter/NOTICE).",
    ]
    own = "\n".join(lines) + "\n"
    return own.encode() if target is None else own.encode() + b"\nNotice of the target:\n\n" + target.lstrip()


def _modifications(
    upstream: Upstream, files: Sequence[ReleaseFile], profile: Profile, unproven: Sequence[str]
) -> bytes:
    totals = component_totals(files)
    lines = [
        "# Modifications",
        "",
        f"Files in this release were changed from {upstream.id} at {upstream.revision}",
        f"and from {profile.hub.repo} at {profile.hub.commit}:",
        "",
        *(f"* `{name}/`: {_CHANGES[name]}." for name in _CHANGES if name in totals),
        "",
        "release.json marks each changed file with a modification notice.",
        *_not_proven(unproven),
    ]
    return ("\n".join(lines) + "\n").encode()


def _not_proven(unproven: Sequence[str]) -> list[str]:
    return ["", "Not proven:", "", *(f"* {sentence}" for sentence in unproven)] if unproven else []


def component_totals(files: Sequence[ReleaseFile]) -> Mapping[str, tuple[int, int]]:
    """Return component -> (number of files, bytes), in the order of the components' names."""
    found: dict[str, tuple[int, int]] = {}
    for file in sorted(files, key=lambda f: f.component):
        count, size = found.get(file.component, (0, 0))
        found[file.component] = count + 1, size + file.bytes
    return found


def _readme(upstream: Upstream, files: Sequence[ReleaseFile], profile: Profile, unproven: Sequence[str]) -> bytes:
    runtime, repo = profile.runtime, profile.hub.repo
    rows = [f"| `{name}/` | {count} | {size:,} |" for name, (count, size) in component_totals(files).items()]
    lines = [
        "---",
        f"license: {profile.target.licence.lower()}",
        "base_model:",
        f"  - {upstream.id}",
        f"  - {repo}",
        "---",
        "",
        f"# {profile.target.name} with its DFlash2 drafter, for Core AI",
        "",
        "A target and the drafter that was made for it: they belong together, and neither is to be replaced alone.",
        "A pair that does not match runs without an error and drafts badly, so verify what you downloaded:",
        "",
        f"    forgepack verify --bundle . --profile {profile.name}",
        "    sha256sum --check SHA256SUMS",
        "",
        "| folder | files | bytes |",
        "|---|---|---|",
        *rows,
        "",
        f"Target: {upstream.id} at {upstream.revision}.",
        f"Drafter: {repo} at {profile.hub.commit}, {profile.recipe.variant}.",
        f"Runtime: bonded compile mode {runtime.compile_mode}, {runtime.draft_gap_ms} ms after each verification,",
        f"host threads: {runtime.host_threads}.",
        "",
        "Terms: LICENSE and NOTICE for the target, drafter/LICENSE and drafter/NOTICE for the drafter;",
        "MODIFICATIONS.md says what was changed, QWEN_SOURCE.json and drafter/DFLASH2_SOURCE.json from what.",
        *_not_proven(unproven),
    ]
    return ("\n".join(lines) + "\n").encode()
