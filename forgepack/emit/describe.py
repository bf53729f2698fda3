"""Describe checkpoint, target and quantization by content, in the form in which the sidecar records them.

Emission writes these objects into the sidecar; verification makes them again from what it is given and compares
them leaf by leaf. Paths are relative to the part of the target that holds the file, so no folder's name matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from forgepack.artifacts.aimodel import METADATA_FILE, SUFFIX, metadata_content
from forgepack.artifacts.checkpoint import MODEL_FILE, Checkpoint
from forgepack.artifacts.files import hash_file, read_bounded
from forgepack.artifacts.model_files import describe_model_files
from forgepack.artifacts.quant import Quant
from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.artifacts.target import MANIFEST_FILE, Target
from forgepack.artifacts.tokenizer import ID_STEP, Tokenizer
from forgepack.artifacts.tree import content, walk
from forgepack.canonical import digest_json, parse_object, sha256_hex
from forgepack.coreai_backend.head_content import content_of_safetensors
from forgepack.errors import CorruptError
from forgepack.geometry import Geometry

TAP_CONVENTION = "layer_output_zero_based"
BASIS_FILE = "basis.json"
Note = Callable[[int], None]


def describe_file(path: Path, note: Note | None = None) -> dict[str, Any]:
    """Return {bytes, sha256} of a file; of an asset's metadata.json its content's digest, since dates may move."""
    if path.name == METADATA_FILE and path.parent.suffix == SUFFIX:
        content = metadata_content(parse_object(read_bounded(path), where=str(path)))
        return {"content_sha256": digest_json(content)}
    size, digest = hash_file(path, note)
    return {"bytes": size, "sha256": digest}


def describe_folder(root: Path, prefix: str, note: Note | None = None) -> dict[str, Any]:
    """Return every file below ``root`` as ``prefix/path`` -> its description; junk of file managers is left out.

    Links are followed to regular files; anything else that is neither file nor folder is refused.
    """
    out = {}
    for entry in content(walk(root)):
        if entry.kind == "special":
            raise CorruptError("not a regular file", where=str(root / entry.path), code="not-regular")
        out[f"{prefix}/{entry.path}"] = describe_file(root / entry.path, note)
    return out


def describe_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return repository, commit and digests as the checkpoint's lock states them."""
    lock = checkpoint.lock
    model = lock.file(MODEL_FILE)
    return {
        "repo": lock.repo,
        "commit": lock.commit,
        "adopted": lock.adopted,
        "lock_sha256": lock.digest,
        "model_sha256": None if model is None else model.sha256,
        "config_sha256": checkpoint.config.sha256,
    }


def describe_target(target: Target, geometry: Geometry, note: Note | None = None) -> dict[str, Any]:
    """Return everything that identifies a target, hashing every file of its export and its packages.

    ``head``, and the files of the export, are null where the target comes without its export.
    """
    manifest, tokenizer, paths, head = target.manifest, target.tokenizer, target.paths, target.head
    export = paths.export
    build_files, export_files, head_content, embedding, model_files = gather(
        lambda: describe_folder(paths.build, "coreai", note),
        lambda: {} if export is None else describe_folder(export, "export", note),
        lambda: None if head is None else describe_head_content(head),
        lambda: describe_file(target.embedding.path, note),
        lambda: describe_model_files(paths.model),
    )
    build_files.pop(f"coreai/{MANIFEST_FILE}", None)
    return {
        "export": manifest.export,
        "manifest": {"sha256": manifest.sha256, "content_sha256": manifest.digest},
        "config_sha256": target.config.sha256,
        "files": {**build_files, **export_files},
        "model_files": model_files,
        "head": None
        if head is None
        else {"file": head.path.name, **export_files[f"export/{head.path.name}"], **head_content},
        "head_package": manifest.head_file,
        "embedding": {"shape": list(target.embedding.shape), "dtype": "F16", **embedding},
        "mask_row": describe_mask_row(target, geometry),
        "tokenizer": {
            "sha256": tokenizer.sha256,
            "semantic_sha256": tokenizer.semantic_sha256,
            "template_sha256": tokenizer.files.template_sha256,
            "settings_sha256": tokenizer.files.settings_sha256,
        },
        "token_ids": describe_token_ids(tokenizer),
        "taps": describe_taps(geometry),
        "basis": describe_basis(target),
    }


def gather(*tasks: Callable[[], Any], workers: int = 2) -> list[Any]:
    """Run tasks on a few threads (hashing releases the interpreter's lock) and return their results in order.

    The first failure in that order is raised.
    """
    with ThreadPoolExecutor(workers) as executor:
        return [future.result() for future in [executor.submit(task) for task in tasks]]


def describe_head_content(head: SafetensorsFile) -> dict[str, Any]:
    """Return what lm_head.safetensors holds: its header, its tensors, and its content in normal form."""
    digest = content_of_safetensors(head).digest()
    tensors = {
        name: {"dtype": info.dtype, "shape": list(info.shape), "sha256": sha256_hex(head.raw(name).data)}
        for name, info in sorted(head.tensors.items())
    }
    return {
        "header_sha256": head.header_sha256,
        "tensors": tensors,
        "rows": digest.rows,
        "columns": digest.columns,
        "ranks_sha256": digest.ranks_sha256,
        "products_sha256": digest.products_sha256,
        "content_sha256": digest.digest,
    }


def describe_mask_row(target: Target, geometry: Geometry) -> dict[str, Any]:
    """Return the mask token and the digest of its float16 embedding row."""
    row = target.embedding.row(geometry.mask_token)
    return {"token": geometry.mask_token, "sha256": sha256_hex(row.tobytes())}


def describe_token_ids(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return which ids mean what, coarsely: digests of runs of ids, so that a moved token can be found again."""
    return {"count": tokenizer.size, "step": ID_STEP, "digests": "".join(tokenizer.id_digests)}


def describe_taps(geometry: Geometry) -> dict[str, Any]:
    """Return the taps in their order, under both conventions: they must not be mixed up by one."""
    return {
        "layer_ids": list(geometry.taps),
        "convention": TAP_CONVENTION,
        "hf_hidden_states": list(geometry.hf_taps),
    }


def describe_basis(target: Target) -> dict[str, Any] | None:
    """Return what says that the target's residual is rotated (manifest, basis.json), or None when nothing does."""
    files = {}
    for part, folder in (("export", target.paths.export), ("coreai", target.paths.build)):
        if folder is not None and (folder / BASIS_FILE).exists():
            files[part] = describe_file(folder / BASIS_FILE)["sha256"]
    if target.manifest.basis is None and not files:
        return None
    return {"rot1_basis": target.manifest.basis, "files": files}


def describe_quantization(quant: Quant) -> dict[str, Any]:
    """Return recipe, calibration and digests of a QUANT; calibration and deployment keep their mask scales apart."""
    report, inputs = quant.report, quant.report.raw["inputs"]
    return {
        "variant": report.variant,
        "method": report.method,
        "recipe": report.raw["recipe"],
        "mask_scale": {"calibration": report.calibration_mask_scale, "deployment": report.mask_scale},
        "calibration": {
            "traces": inputs["calibration"],
            "held_out": inputs.get("held_out"),
            "target": inputs["target"],
            "checkpoint": inputs["checkpoint"],
        },
        "profile_sha256": report.profile_sha256,
        "report_sha256": report.sha256,
        "drafter_quant_sha256": report.output_sha256,
    }


def differences(expected: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted path, expected, found) for every leaf in which two described objects differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(set(expected) | set(found)):
            here = f"{path}.{key}" if path else key
            yield from differences(expected.get(key), found.get(key), here)
    elif type(expected) is not type(found) or expected != found:
        yield path, expected, found
