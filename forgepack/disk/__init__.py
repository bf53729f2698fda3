"""The one room that writes: every file and folder that this tool makes, replaces or removes goes through here.

``failures`` turns what a disk refuses into errors, ``locks`` keeps a second run out, ``space`` asks for room first,
``files`` writes single files, ``places`` checks where an output may stand, ``records`` says which files a
folder of this tool holds, ``folders`` puts a finished folder in its place, and ``temporary`` makes folders
that the next run removes after a kill.

May import: artifacts.
"""
