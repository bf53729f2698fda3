"""Tests of bundles, and of what the verifier and the contract demand of one."""
