"""A replay's report checked by a policy: which numbers a candidate must reach.

``policy`` and ``timings`` are the two files that it reads beside the report, ``template`` makes a first policy,
``checks`` are its demands and ``judge`` the verdict.

May import: artifacts, drafter, release.replay.
"""
