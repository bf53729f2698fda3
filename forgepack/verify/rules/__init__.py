"""The rules, one function each, one file an area; a rule's docstring is the sentence that holds.

A file here is found by ``forgepack.verify.policy.rule`` without being listed; no rule imports another area's rules.

May import: artifacts, coreai_backend, facts, emit, verify.findings, verify.policy, verify.inputs, verify.checks.
"""
