"""A release on the hub, verified at its commit without its weights.

``sparse_copy`` makes the copy whose big files are holes of their true size, ``verify`` checks it by the hub's
digests.

May import: artifacts, disk, hub, verify.
"""
