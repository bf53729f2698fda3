"""From a quantized drafter, its checkpoint and its target to a package with its sidecar.

The table of constants is here, which says how each constant of the package comes from its sources: the emitter
writes by it and the verifier's lineage check reads it again. Also the graph's layers, and the sidecar, which binds
the package to the facts of its target and sources.

May import: artifacts, disk, coreai_backend, facts, quantize.
"""
