"""Tests of forgepack.miniature."""
