"""Which rules run, and which of their findings an owner accepts: the registry of rules, selection, waivers, baseline.

May import: artifacts, verify.findings.
"""
