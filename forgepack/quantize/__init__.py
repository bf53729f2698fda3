"""LUT4 by GPTQ and INT8 by rounding, streamed layer by layer over recorded traces.

From a checkpoint, a target and traces to the quantized tensors with their report; also the comparison of a
quantization with its checkpoint, and the folds of scales that emission repeats.

May import: artifacts, disk, drafter.
"""
