"""Proof by mutation: every field, constant and tensor of a pair is changed in turn, and must be refused."""
