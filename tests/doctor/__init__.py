"""Tests of what doctor asks of this machine."""
