"""What several rules compute of a pair: comparisons with records, taps, heads, coverage. The rules say what it means.

May import: artifacts, coreai_backend, drafter, emit, facts, quantize, verify.findings, verify.policy, verify.inputs.
"""
