"""The embedded miniature: its demonstration, and the hub on loopback that serves it."""
