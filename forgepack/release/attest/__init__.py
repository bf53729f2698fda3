"""A package attested for a second target: what it is, and the evidence that it works there.

``make`` describes the target and lets the verifier check the attestation that would be written; ``evidence`` reads
a replay's report as the evidence that an attestation names.

May import: artifacts, disk, facts, emit, verify, release.replay.
"""
