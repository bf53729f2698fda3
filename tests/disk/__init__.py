"""The room that writes: places, files, folders, what a file system lacks, and kills at any moment."""
