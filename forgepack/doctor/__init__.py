"""What a newcomer asks first: whether this machine has what the commands need.

One condition after another is looked at and told, good or not; nothing is repaired.

May import: disk, coreai_backend.
"""
