"""LIC: the licence and notice of the checkpoint go with the package, and the target's terms with the target."""

from __future__ import annotations

from collections.abc import Iterator

from forgepack.canonical import sha256_hex
from forgepack.verify.checks.faults import reported_row
from forgepack.verify.checks.files import line_ends
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.layout import LICENCE_FILE, NOTICE_FILE
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

# Words that the text of a licence must hold, by SPDX name.
_WORDS = {
    "Apache-2.0": ("Apache License", "Version 2.0"),
    "MIT": ("Permission is hereby granted, free of charge",),
    "BSD-3-Clause": ("Redistribution and use in source and binary forms",),
}


@rule(
    "LIC003",
    title="the licence's text is of the licence that the profile names",
    why="another licence grants other rights",
    remedy="restore LICENSE from the checkpoint, or correct the profile",
    needs=("licence",),
    waivable=True,
)
def licence_kind(pair: Pair) -> Iterator[Finding]:
    """LICENSE holds the words of the profile's licence."""
    text = " ".join(pair.licence.value.decode("utf-8", "replace").split())
    name = pair.profile.licence
    absent = [words for words in _WORDS.get(name, ()) if words not in text]
    if absent:
        where = pair.place(pair.sources.drafter / LICENCE_FILE)
        yield differing("licence", where, expected=f"{name}: {absent[0]!r}", found=text[:60] or "nothing")


@rule(
    "LIC004",
    title="licence and notice are the checkpoint's, byte for byte",
    why="an edited notice drops who must be named",
    remedy="copy LICENSE and NOTICE from the checkpoint",
    needs=("checkpoint_texts",),
    waivable=True,
)
def texts(pair: Pair) -> Iterator[Finding]:
    """LICENSE and NOTICE of package and checkpoint hold the same bytes."""
    package = {LICENCE_FILE: pair.licence, NOTICE_FILE: pair.notice}
    for name, data in sorted(pair.checkpoint_texts.value.items()):
        if package[name].available and package[name].value != data:
            where = pair.place(pair.sources.drafter / name)
            message = line_ends(pair.sources.drafter / name, sha256_hex(data))
            yield differing(name, where, expected="the checkpoint's text", found="another text", message=message)


@rule(
    "LIC005",
    title="the asset names the licences of drafter and target",
    why="a package without its sidecar still has to state its terms",
    remedy="emit the package again",
    needs=("asset", "binding"),
    waivable=True,
)
def asset_licence(pair: Pair) -> Iterator[Finding]:
    """``license`` in the asset's metadata names the profile's licences of drafter and target."""
    asset = pair.asset.value
    expected = " AND ".join(sorted({pair.profile.licence, pair.profile.target.licence}))
    found = asset.metadata.get("license")
    if found != expected:
        where = pair.place(asset.root / "metadata.json", "license")
        yield differing("licence of the asset", where, expected=expected, found=found)


@rule(
    "LIC006",
    title="the target's release root carries the target's licence",
    why="head and mask row are the target's: its terms hold for them, too",
    remedy="put the target's LICENSE at its release root",
    severity="warning",
    needs=("target_licence",),
)
def target_licence(pair: Pair) -> Iterator[Finding]:
    """LICENSE at the target's root is there, not empty, and of the licence that the profile names."""
    path, data = pair.target_licence.value
    name = pair.profile.target.licence
    text = " ".join(data.decode("utf-8", "replace").split())
    where = pair.place(path)
    if not text:
        yield differing("licence of the target", where, expected=name, found="no LICENSE, or an empty one")
    elif absent := [words for words in _WORDS.get(name, ()) if words not in text]:
        yield differing("licence of the target", where, expected=f"{name}: {absent[0]!r}", found=text[:60])


ROWS = (
    reported_row(
        "LIC001",
        demand="LICENSE is in the drafter folder and is not empty.",
        title="the package carries the checkpoint's licence",
        why="without its licence the weights may not be passed on",
        remedy="copy LICENSE from the checkpoint; forgepack emit does",
        each_of=("licence",),
        codes=("licence-missing", "licence-empty"),
        after=("CTR045",),
        waivable=True,
    ),
    reported_row(
        "LIC002",
        demand="NOTICE is in the drafter folder and is not empty, where the profile's checkpoint has one.",
        title="the package carries the checkpoint's notice",
        why="the licence demands that the notice goes with the weights",
        remedy="copy NOTICE from the checkpoint; forgepack emit does",
        each_of=("notice",),
        codes=("notice-missing", "notice-empty"),
        after=("CTR045",),
        waivable=True,
    ),
)
