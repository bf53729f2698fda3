"""The pinned download against a loopback hub."""
