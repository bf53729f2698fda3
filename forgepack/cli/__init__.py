"""The command line: one command a file, each parses, calls one library function and renders.

Options, settings files, progress and error texts are here: only this room talks to the user.

May import: artifacts, disk, coreai_backend, hub, drafter, quantize, emit, verify, release.inspect, release.diff,
release.bundle, release.replay, release.replay.gate, release.attest, release.published, release.verification,
release.recipe, miniature, doctor, render.
"""
