"""Tests of emission."""
