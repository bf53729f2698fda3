"""Tests of attestations."""
