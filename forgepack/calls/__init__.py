"""The functions that ``forgepack.api`` names: each reads its paths, and calls what the command of its name calls.

May import: artifacts, disk, coreai_backend, hub, quantize, emit, verify, release.inspect, release.diff,
release.bundle, release.replay, release.replay.gate, release.attest, release.published, release.verification,
release.recipe, render.
"""
