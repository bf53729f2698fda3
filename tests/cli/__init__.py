"""Tests of forgepack.cli."""
