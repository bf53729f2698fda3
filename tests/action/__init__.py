"""What other tools run: the composite action and the pre-commit hooks, with their shell as it stands."""
