"""Tests of what is done around a package."""
