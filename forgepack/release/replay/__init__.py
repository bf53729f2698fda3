"""Drafters replayed on recorded traces: the run, its report, and the report read again.

``drafter_identity`` says which drafter a folder holds, ``package_weights`` opens a package as weights. The gate,
which checks a report by a policy, is the room below this one.

May import: artifacts, coreai_backend, drafter, emit, verify.
"""
