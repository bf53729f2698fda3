"""Readers at their bounds: what a hostile file of each kind may cost."""
