"""What a newcomer asks first: whether this machine has what the commands need.

Each condition is checked and reported, good or not; nothing is repaired.

May import: disk, coreai_backend.
"""
