"""What is read of a pair: each thing once, when a rule asks for it. ``pair`` is the pair as rules see it.

May import: artifacts, disk, coreai_backend, drafter, emit, quantize, verify.findings, verify.policy.
"""
