"""The command line: one command a file, each parses, calls one library function and renders."""
