"""LUT4 by GPTQ and INT8 by rounding, streamed layer by layer over recorded traces."""
