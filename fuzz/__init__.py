"""Fuzzing of every reader: any input ends in a value or in one of this tool's errors."""
