"""A sample of the seeded damage that ``make fuzz-replay`` runs in full."""
