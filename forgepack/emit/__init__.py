"""From a quantized drafter, its checkpoint and its target to a package with its sidecar."""
