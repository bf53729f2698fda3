"""Faults that harmed people who package or serve models, carried over to this product's pair (see TABLE.md)."""
