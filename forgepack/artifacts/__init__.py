"""What is on disk, parsed once at the boundary into frozen values.

One file a format: readers of what this tool and others write, within the bounds of ``limits``, and the writers that
belong to a format. A reader says what a file holds and where it is damaged; what that means for a pair is decided
elsewhere: there is no policy here.

May import: disk.
"""
