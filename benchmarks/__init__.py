"""Benchmarks: a synthetic release at true size, the machine's ceilings, and whole-process measurements.

Nothing here is part of the tool: ``make bench`` measures at a reduced size, ``make bench-full`` at full size, both
into a scratch directory. Tests never time anything.
"""
