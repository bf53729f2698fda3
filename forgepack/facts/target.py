"""Facts of a target, part by part, from what headers show to what all bytes show.

Each function yields what one part of the target states. Emission needs all of them (``target_record``); the verifier
asks for those whose part could be read at its depth. Paths are relative to the part that holds the file, so no
folder's name matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forgepack.artifacts.config import TargetConfig
from forgepack.artifacts.files import hash_file, read_bounded
from forgepack.artifacts.model_files import describe_model_files
from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.artifacts.target import MANIFEST_FILE, Embedding, Manifest, Target, TargetPaths
from forgepack.artifacts.tokenizer import ID_STEP, Tokenizer, TokenizerFiles
from forgepack.artifacts.trace_identity import TAP_CONVENTION
from forgepack.canonical import sha256_hex
from forgepack.coreai_backend.head_content import HeadDigest, content_of_safetensors
from forgepack.facts.fact import Fact, record_of
from forgepack.facts.files import Note, folder_record
from forgepack.geometry import Geometry
from forgepack.parallel import gather

BASIS_FILE = "basis.json"


def manifest_facts(manifest: Manifest) -> Iterator[Fact]:
    """Yield the content of manifest.json, and the head package that it names."""
    path, digest = manifest.path, manifest.digest
    yield Fact(path="manifest.content_sha256", value=digest, file=path, subject="content of the manifest")
    yield Fact(path="head_package", value=manifest.head_file, file=path, part="head.file")


def export_facts(manifest: Manifest) -> Iterator[Fact]:
    """Yield the export that manifest.json names."""
    yield Fact(path="export", value=manifest.export, file=manifest.path, part="export")


def manifest_bytes_facts(manifest: Manifest) -> Iterator[Fact]:
    """Yield the digest of manifest.json as it was written: other bytes of equal content are legal."""
    yield Fact(path="manifest.sha256", value=manifest.sha256, file=manifest.path)


def config_facts(config: TargetConfig) -> Iterator[Fact]:
    """Yield the digest of the target's config.json."""
    yield Fact(path="config_sha256", value=config.sha256, file=config.path)


def head_header_facts(head: SafetensorsFile) -> Iterator[Fact]:
    """Yield name, size and header of lm_head.safetensors."""
    yield Fact(
        path="head.header_sha256", value=head.header_sha256, file=head.path, subject="header of the export's head"
    )
    yield Fact(path="head.file", value=head.path.name, file=head.path, subject="name of the export's head")
    yield Fact(path="head.bytes", value=head.size, file=head.path, subject="size of the export's head")


def head_file_facts(head: SafetensorsFile, sha256: str | None) -> Iterator[Fact]:
    """Yield the digest of lm_head.safetensors; None where it could not be read."""
    yield Fact(path="head.sha256", value=sha256, file=head.path, subject="bytes of the export's head")


def head_tensor_facts(head: SafetensorsFile) -> Iterator[Fact]:
    """Yield type, shape and SHA-256 of each tensor of lm_head.safetensors; all of its bytes are read."""
    tensors = {
        name: {"dtype": info.dtype, "shape": list(info.shape), "sha256": sha256_hex(head.raw(name).data)}
        for name, info in sorted(head.tensors.items())
    }
    yield Fact(path="head.tensors", value=tensors, file=head.path, subject="tensor of the export's head")


def head_content_facts(digest: HeadDigest, file: Path) -> Iterator[Fact]:
    """Yield a head's content in normal form: rows, columns, ranks and products, and one digest of them all."""
    for key, value in {**asdict(digest), "content_sha256": digest.digest}.items():
        yield Fact(path=f"head.{key}", value=value, file=file, subject=f"{key} of the head")


def embedding_facts(table: Embedding, size: int | None, sha256: str | None) -> Iterator[Fact]:
    """Yield shape, type, size and digest of the embedding; None for what could not be read."""
    found = {"shape": list(table.shape), "dtype": "F16", "bytes": size, "sha256": sha256}
    for key, value in found.items():
        yield Fact(path=f"embedding.{key}", value=value, file=table.path, subject=f"{key} of the embedding")


def mask_row_facts(table: Embedding, geometry: Geometry) -> Iterator[Fact]:
    """Yield the mask token, and the digest of its float16 row where the embedding has one."""
    token = geometry.mask_token
    yield Fact(path="mask_row.token", value=token, file=table.path, subject="mask token")
    if token < table.shape[0]:
        digest = sha256_hex(table.row(token).tobytes())
        where = f"row {token}"
        yield Fact(path="mask_row.sha256", value=digest, file=table.path, part=where, subject="row of the mask token")


def tokenizer_bytes_facts(files: TokenizerFiles) -> Iterator[Fact]:
    """Yield the digest of tokenizer.json as it was written: other bytes of equal meaning are legal."""
    yield Fact(path="tokenizer.sha256", value=files.sha256, file=files.path)


def template_facts(files: TokenizerFiles) -> Iterator[Fact]:
    """Yield the digest of the chat template that tokenizer_config.json holds, None where it holds none."""
    path = files.path.with_name("tokenizer_config.json")
    yield Fact(path="tokenizer.template_sha256", value=files.template_sha256, file=path, part="chat_template")


def settings_facts(files: TokenizerFiles) -> Iterator[Fact]:
    """Yield the digest of the rest of tokenizer_config.json."""
    path = files.path.with_name("tokenizer_config.json")
    yield Fact(path="tokenizer.settings_sha256", value=files.settings_sha256, file=path)


def meaning_facts(tokenizer: Tokenizer) -> Iterator[Fact]:
    """Yield what the tokenizer means; digests of runs of ids show later which token moved."""
    found = {
        "tokenizer.semantic_sha256": ("meaning", tokenizer.semantic_sha256),
        "token_ids.count": ("ids, count", tokenizer.size),
        "token_ids.step": ("ids, step", ID_STEP),
        "token_ids.digests": ("ids, digests", "".join(tokenizer.id_digests)),
    }
    for path, (subject, value) in found.items():
        yield Fact(path=path, value=value, file=tokenizer.path, subject=f"{subject} of the tokenizer")


def basis_facts(manifest: Manifest, paths: TargetPaths) -> Iterator[Fact]:
    """Yield what says that the target's residual is rotated (manifest, basis.json); None where nothing does."""
    files = {
        part: sha256_hex(read_bounded(folder / BASIS_FILE))
        for part, folder in (("export", paths.export), ("coreai", paths.build))
        if folder is not None and (folder / BASIS_FILE).is_file()
    }
    rotated = None if manifest.basis is None and not files else {"rot1_basis": manifest.basis, "files": files}
    yield Fact(path="basis", value=rotated, file=manifest.path, part="rot1_basis", subject="basis of the target")


def taps_record(geometry: Geometry) -> dict[str, Any]:
    """Return the taps in their order, under both conventions: they must not be mixed up by one."""
    return {
        "layer_ids": list(geometry.taps),
        "convention": TAP_CONVENTION,
        "hf_hidden_states": list(geometry.hf_taps),
    }


def target_record(target: Target, geometry: Geometry, note: Note | None = None) -> dict[str, Any]:
    """Return everything that identifies a target, hashing every file of its export and its packages.

    ``head``, and the files of the export, are null or left out where the target comes without its export. ``note``
    hears how many bytes were read. Raises the readers' errors.
    """
    paths, table = target.paths, target.embedding
    export, head = paths.export, target.head
    build_files, export_files, tensors, embedding, model_files = gather(
        lambda: folder_record(paths.build, "coreai", note),
        lambda: {} if export is None else folder_record(export, "export", note),
        lambda: [] if head is None else [*head_tensor_facts(head), *_content_of(head)],
        lambda: hash_file(table.path, note),
        lambda: describe_model_files(paths.model),
    )
    build_files.pop(f"coreai/{MANIFEST_FILE}", None)
    facts = [
        *manifest_facts(target.manifest),
        *export_facts(target.manifest),
        *manifest_bytes_facts(target.manifest),
        *config_facts(target.config),
        *embedding_facts(table, *embedding),
        *mask_row_facts(table, geometry),
        *tokenizer_bytes_facts(target.tokenizer.files),
        *template_facts(target.tokenizer.files),
        *settings_facts(target.tokenizer.files),
        *meaning_facts(target.tokenizer),
        *basis_facts(target.manifest, paths),
        *tensors,
    ]
    if head is not None:
        sha256 = export_files[f"export/{head.path.name}"]["sha256"]
        facts += [*head_header_facts(head), *head_file_facts(head, sha256)]
    files: Mapping[str, Any] = {**build_files, **export_files}
    listed = {"files": files, "model_files": model_files, "taps": taps_record(geometry)}
    return {"head": None} | record_of(facts) | listed


def _content_of(head: SafetensorsFile) -> Iterator[Fact]:
    return head_content_facts(content_of_safetensors(head).digest(), head.path)
