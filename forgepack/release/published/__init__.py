"""A release on the hub, verified at its commit without its weights.

``hollow`` makes the copy whose big files are holes of their true size, ``verify`` judges it by the hub's digests.

May import: artifacts, disk, hub, verify.
"""
