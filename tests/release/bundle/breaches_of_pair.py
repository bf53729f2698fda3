"""Breaches of the target's layout and of the pair's agreement, in files that release.json lists correctly."""

from __future__ import annotations

from tests.release.bundle.breaches import (
    Breach,
    config,
    headless,
    longer_selector,
    manifest,
    put,
    release,
    sidecar,
    without_package,
)

TARGET = [
    Breach(
        name="other_context",
        change=put("runtimes", "coreai", "contexts", value=[512]),
        causes=("CTR049",),
        word="contexts of manifest",
    ),
    Breach(
        name="block_of_4", change=manifest(lambda raw: raw.update(T=4)), causes=("CTR014",), word="T of the manifest"
    ),
    Breach(
        name="gap_between_chunks",
        change=manifest(lambda raw: raw["chunks"][1].update(layers=[5, 7])),
        causes=("CTR015",),
        word="contiguous",
    ),
    Breach(
        name="no_verification_entry",
        change=manifest(lambda raw: raw["chunks"][0].update(entries=["p64_1k"])),
        causes=("CTR015",),
        word="entries of a chunk",
    ),
    Breach(
        name="lost_package",
        change=without_package,
        causes=("CTR023", "CTR050", "PKG001"),
        word="package chunk",
    ),
    Breach(
        name="compiled_package_not_there",
        change=manifest(lambda raw: raw["head"].update(compiled="head_T8.aimodelc")),
        causes=("CTR020", "CTR050"),
        word="package head_T8.aimodelc",
    ),
]
PAIR = [
    Breach(
        name="no_drafter",
        change=release(lambda raw: raw.update(drafter=None)),
        causes=("CTR041", "CTR051"),
        word="drafter",
    ),
    Breach(
        name="taps_of_release",
        change=release(lambda raw: raw["drafter"]["taps"].reverse()),
        causes=("CTR048",),
        word="taps",
    ),
    Breach(
        name="taps_of_manifest", change=manifest(lambda raw: raw["taps"].reverse()), causes=("TAP004",), word="taps"
    ),
    Breach(
        name="target_export_of_release",
        change=put("drafter", "target_export", value="other"),
        causes=("CTR048",),
        word="export names",
    ),
    Breach(
        name="head_export_of_release",
        change=put("drafter", "head_export", value="other"),
        causes=("CTR048",),
        word="export names",
    ),
    Breach(
        name="target_export_of_sidecar",
        change=sidecar(lambda raw: raw.update(target_export="other")),
        causes=("CTR004",),
        word="export names",
    ),
    Breach(
        name="head_export_of_sidecar",
        change=sidecar(lambda raw: raw.update(head_export="other/lm_head.safetensors")),
        causes=("CTR004",),
        word="export names",
    ),
    *(
        Breach(
            name=f"{key}_of_sidecar",
            change=sidecar(lambda raw, key=key: raw.update({key: raw[key] + 1})),  # type: ignore[misc]
            causes=("CTR003",),
            word="T, R, RP, W",
        )
        for key in ("T", "R", "RP", "W")
    ),
    *(
        Breach(
            name=f"{key}_of_config",
            change=config(lambda raw, key=key: raw.update({key: raw[key] + 1})),  # type: ignore[misc]
            causes=("CTR010",),
            word=key,
        )
        for key in (
            *("num_target_layers", "hidden_size", "sliding_window", "num_hidden_layers", "head_dim"),
            "num_key_value_heads",
        )
    ),
    *(
        Breach(
            name=f"{key}_of_config",
            change=config(lambda raw, key=key: raw["dflash_config"].update({key: 5})),  # type: ignore[misc]
            causes=("CTR010",),
            word=key,
        )
        for key in ("block_size", "selector_rank")
    ),
    Breach(
        name="vocabulary", change=config(lambda raw: raw.update(vocab_size=47)), causes=("VOC001",), word="vocab_size"
    ),
    Breach(name="no_logits", change=sidecar(headless), causes=("PKG009",), word="entries"),
    Breach(name="trailing_selector", change=longer_selector, causes=("FMT013", "PKG014"), word="length of"),
]
