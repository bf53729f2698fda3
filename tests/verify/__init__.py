"""Tests of the verifier: real tiny pairs, sabotaged one fault at a time."""
