"""Tests of forgepack.quantize."""
