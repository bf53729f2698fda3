"""Tests of forgepack.drafter."""
