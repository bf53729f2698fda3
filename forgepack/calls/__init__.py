"""The functions that ``forgepack.api`` names: each reads its paths, and calls what the command of its name calls."""
