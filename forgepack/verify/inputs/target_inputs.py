"""The inputs of a target: its model folder, its build, its export and what stands beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forgepack.artifacts.aimodel import AssetFiles
from forgepack.artifacts.config import TargetConfig, read_target_config
from forgepack.artifacts.export import ExportFiles, build_faults, read_export
from forgepack.artifacts.model_files import ModelFiles, read_model_files
from forgepack.artifacts.release_json import MODEL_FILES
from forgepack.artifacts.target import (
    EMBEDDING_FILE,
    HEAD_FILE,
    MANIFEST_FILE,
    Embedding,
    Manifest,
    named_packages,
    read_embedding,
    read_manifest,
)
from forgepack.artifacts.tokenizer import (
    TOKENIZER_FILE,
    Tokenizer,
    TokenizerFiles,
    read_tokenizer,
    read_tokenizer_files,
)
from forgepack.verify.findings.report import Depth
from forgepack.verify.inputs import lineage
from forgepack.verify.inputs.input_set import InputSet, Tree, below, never
from forgepack.verify.inputs.layout import CONFIG_FILE, LICENCE_FILE
from forgepack.verify.inputs.readers import read_optional
from forgepack.verify.inputs.reading import Input, Parsed
from forgepack.verify.inputs.version_1 import leave_to_version_1

NO_EXPORT = "the target's export is not there"
NO_ROOT = "the target's parts were named apart, without a release root"


class TargetInputs(InputSet):
    """The target of a set of inputs; ``written_sidecar`` is the package's own, which binds its files."""

    written_sidecar: Input[Mapping[str, Any]]

    def _add_target(self) -> None:
        before = set(vars(self))
        model, build, export = self.sources.target.model, self.sources.target.build, self.sources.target.export
        self.model_tree: Input[Tree] = self._tree("model_tree", model)
        self.build_tree: Input[Tree] = self._tree("build_tree", build)
        self.target_config: Input[TargetConfig] = self._file("target_config", model / CONFIG_FILE, read_target_config)
        self.embedding: Input[Embedding] = self._file("embedding", model / EMBEDDING_FILE, read_embedding)
        self.manifest: Input[Manifest] = self._file("manifest", build / MANIFEST_FILE, lambda _: read_manifest(build))
        tokenizer = model / TOKENIZER_FILE
        self.tokenizer_files: Input[TokenizerFiles] = self._file(
            "tokenizer_files", tokenizer, lambda _: read_tokenizer_files(model), depth=Depth.HASH
        )
        self.tokenizer: Input[Tokenizer] = self._file(
            "tokenizer", tokenizer, lambda _: read_tokenizer(model), depth=Depth.LINEAGE
        )
        self.packages: Input[Mapping[str, AssetFiles]] = Input("packages", self._read_packages)
        self.export_tree: Input[Tree] = self._tree("export_tree", export, absent=NO_EXPORT)
        self.head = self._safetensors("head", export, HEAD_FILE, absent=NO_EXPORT)
        self.export_files: Input[ExportFiles] = Input("export_files", self._read_export)
        self.build_files: Input[Tree] = Input("build_files", self._read_build)
        self.model_files: Input[ModelFiles] = Input("model_files", self._read_model, depth=Depth.HASH)
        root = self.sources.root
        self.target_licence: Input[tuple[Path, bytes]] = self._file(
            "target_licence", below(root, LICENCE_FILE), read_optional, absent=NO_ROOT
        )
        self._of_target = tuple(vars(self).keys() - before)

    def leave_out_target(self, reason: str) -> None:
        """Leave every input of the target out: what needs one is not evaluated, for that reason."""
        for name in self._of_target:
            setattr(self, name, Input(name, never, depth=self.input(name).depth, absent=reason))

    def _read_export(self) -> Parsed[ExportFiles]:
        root = self.sources.target.export
        entries = self._regular(self.export_tree.value)
        assert root is not None, "it has entries"
        files, faults = read_export(root, entries, layers=self.profile.geometry.target_layers)
        return leave_to_version_1(self.written_sidecar, files, faults)

    def _read_build(self) -> Parsed[Tree]:
        """Look at every file of the build that belongs to no package of the manifest."""
        entries = self._regular(self.build_tree.value)
        named = list(named_packages(self.manifest.value)) if self.manifest.available else []
        return Parsed(value=entries, faults=tuple(build_faults(self.sources.target.build, entries, named)))

    def _read_model(self) -> Parsed[ModelFiles]:
        root = self.sources.target.model
        # A folder in a file's place is read, too: its reader says what it is. A link is another rule's.
        links = {entry.path for entry in self.model_tree.value if entry.kind == "link"}
        there = {entry.path for entry in self.model_tree.value} - (set() if self.sources.allow_links else links)
        files, faults = read_model_files(root, tuple(name for name in MODEL_FILES if name in there))
        return Parsed(value=files, faults=tuple(faults))

    def _regular(self, entries: Tree) -> Tree:
        """Return the files of a part; a link counts where links are allowed."""
        kinds = ("file", "link") if self.sources.allow_links else ("file",)
        return tuple(entry for entry in entries if entry.kind in kinds)

    def _read_packages(self) -> Parsed[Mapping[str, AssetFiles]]:
        manifest = self.manifest.value
        names = named_packages(manifest)
        build = self.sources.target.build
        return lineage.read_packages(build, names, links=self.sources.allow_links)
