"""What a checkpoint, a quantization and a target are, as facts: the one description that all commands share.

A fact is a path in a record, the value found, and the file that it was found in. Emission writes the facts as the
sidecar's binding, an attestation holds those of a second target, and the verifier compares the facts that it finds
with the ones that are bound.

May import: artifacts, coreai_backend.
"""
