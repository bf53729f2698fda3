"""Tests of forgepack.artifacts."""
