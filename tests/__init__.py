"""The suite mirrors the package; each test states a behaviour."""
