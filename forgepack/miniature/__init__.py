"""The embedded miniature: its data, its demonstration in stages, and the hub on loopback that serves it.

The hub answers what the demonstration's pinned download asks for, and nothing else: what damages its answers
belongs to the tests.

May import: artifacts, coreai_backend, hub, drafter, quantize, emit, verify.
"""
