"""What release engineers do around the package, each job in a room of its own below this one.

There are no files beside this one. A job that uses another's says so in its own room.

May import: nothing.
"""
