"""DFlash2 in NumPy float32, shape-generic: the reference that packages and quantized drafters are held against."""
