"""DFlash2 in NumPy float32, shape-generic.

The reference that packages and quantized drafters are compared with: its forward pass, its selector, its weights
from any of their forms, and the replay of recorded blocks with the statistics of what was accepted.

May import: artifacts.
"""
