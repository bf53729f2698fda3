"""A drafter and its target in one folder, in the form that the target's helper downloads.

``inventory`` says which files go where, ``documents`` writes what stands at the root, ``make`` copies, hashes,
verifies and publishes the folder.

May import: artifacts, disk, hub, verify.
"""
