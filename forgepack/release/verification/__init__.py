"""A verification as a command or a caller asks for it: what is accepted, read from its files, and the run itself.

May import: artifacts, verify, verify.rules, release.attest.
"""
