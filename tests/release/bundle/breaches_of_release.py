"""Breaches of release.json's own form, of its inventory, and of the folder that it describes."""

from __future__ import annotations

from tests.release.bench import STEM
from tests.release.bundle.breaches import (
    Breach,
    add_listed,
    entry_of,
    flip,
    link,
    listed,
    put,
    release,
    rename_document,
    unlist,
    write,
)

ASSET = f"drafter/{STEM}.aimodel"
FORM = [
    Breach(name="version_2", change=put("schema_version", value=2), causes=("CTR040",), word="schema_version"),
    Breach(name="version_true", change=put("schema_version", value=True), causes=("CTR040",), word="schema_version"),
    Breach(
        name="no_upstream",
        change=put("upstream_model", "revision", value=" "),
        causes=("CTR040",),
        word="upstream_model",
    ),
    Breach(name="no_runtimes", change=put("runtimes", value={}), causes=("CTR040",), word="runtimes"),
    Breach(
        name="other_runtime",
        change=put("runtimes", "mlx", value={"path": "mlx", "contexts": [1024]}),
        causes=("CTR040",),
        word="runtimes",
    ),
    Breach(
        name="context_twice",
        change=release(
            lambda raw: raw["runtimes"]["coreai"]["contexts"].append(raw["runtimes"]["coreai"]["contexts"][0])
        ),
        causes=("CTR040",),
        word="contexts",
    ),
    Breach(
        name="drafter_runtime",
        change=put("drafter", "runtime", value="coreml"),
        causes=("CTR040",),
        word="the drafter's runtime",
    ),
    Breach(
        name="export_is_a_path",
        change=put("drafter", "head_export", value="x/lm_head.safetensors"),
        causes=("CTR040",),
        word="export names",
    ),
    Breach(name="no_files", change=put("files", value=[]), causes=("CTR040",), word="files"),
    Breach(name="negative_size", change=listed("README.md", bytes=-1), causes=("CTR040",), word="bytes of"),
    Breach(name="upper_digest", change=listed("README.md", sha256="A" * 64), causes=("CTR040",), word="sha256"),
]
PATHS = [
    Breach(name=name, change=listed("README.md", path=path), causes=("PATH001",), word=word)
    for name, path, word in (
        ("empty", "", "a path is a text"),
        ("absolute", "/README.md", "not canonical"),
        ("parent", "../README.md", "not canonical"),
        ("parent_inside", "model/../README.md", "not canonical"),
        ("dot", "./README.md", "not canonical"),
        ("double_slash", "model//README.md", "not canonical"),
        ("trailing_slash", "README.md/", "not canonical"),
        ("backslash", "model\\README.md", "a character"),
        ("star", "READM*.md", "a character"),
        ("question", "READM?.md", "a character"),
        ("bracket", "[R]EADME.md", "a character"),
    )
]
PLACES = [
    Breach(
        name="entry_twice",
        change=release(lambda raw: raw["files"].append(entry_of(raw, "README.md"))),
        causes=("CTR041",),
        word="listed twice",
    ),
    Breach(
        name="outside_component",
        change=listed("coreai/manifest.json", component="model"),
        causes=("CTR041", "CTR044"),
        word="outside its component",
    ),
    Breach(
        name="nested_folders",
        change=put("export_path", value="coreai/export"),
        causes=("CTR041",),
        word="folders",
    ),
    Breach(name="equal_folders", change=put("export_path", value="model"), causes=("CTR041",), word="folders"),
    Breach(
        name="component_without_folder",
        change=release(lambda raw: raw.pop("export_path") and None),
        causes=("CTR041",),
        word="component export",
    ),
]
CONTENT = [
    *(
        Breach(name=f"without_{name}", change=unlist(name), causes=("CTR042",), word="documents")
        for name in ("README.md", "LICENSE", "NOTICE", "MODIFICATIONS.md", "QWEN_SOURCE.json")
    ),
    Breach(name="other_document", change=rename_document, causes=("CTR042",), word="documents"),
    Breach(
        name="sixth_document",
        change=add_listed("EXTRA.md", "documentation"),
        causes=("CTR042",),
        word="documents",
    ),
    *(
        Breach(
            name=f"no_notice_{number}",
            change=listed(path, modification_notice=notice),
            causes=("CTR043",),
            word="modification notice",
        )
        for number, (path, notice) in enumerate(
            (
                ("model/embed_tokens_fp16.npy", None),
                ("drafter/selector.safetensors", " "),
                (f"{ASSET}/main.mlirb", ""),
                ("coreai/head_T8.aimodel/main.hash", None),
                ("export/tiny_lr64mix/lm_head.safetensors", "\n"),
            )
        )
    ),
    Breach(
        name="model_shard",
        change=add_listed("model/model.safetensors.index.json", "model"),
        causes=("CTR044",),
        word="allowed files of model/",
    ),
    Breach(
        name="no_tokenizer_config",
        change=unlist("model/tokenizer_config.json"),
        causes=("CTR044", "CTR045"),
        word="required files of model/",
    ),
    Breach(
        name="unlisted_package",
        change=write("coreai/head_T8.aimodelc/net", b"x"),
        causes=("CTR045",),
        word="is not listed",
    ),
    Breach(name="junk", change=write("drafter/.DS_Store", b"x"), causes=("CTR045",), word="is not listed"),
    Breach(
        name="missing_document",
        change=lambda root: (root / "NOTICE").unlink(),
        causes=("CTR045",),
        word="is not there",
    ),
    Breach(name="linked_document", change=link("README.md"), causes=("CTR045", "CTR054"), word="is not there"),
    Breach(
        name="linked_file", change=link("model/tokenizer_config.json"), causes=("CTR045", "PATH002"), word="not there"
    ),
    Breach(name="longer_document", change=write("NOTICE", b"x" * 4000), causes=("CTR046",), word="size of"),
    Breach(name="flipped_bit", change=flip("README.md"), causes=("CTR047",), word="digest of"),
]
