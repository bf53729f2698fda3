"""``python -m forgepack``."""

from forgepack.cli.main import entry

if __name__ == "__main__":
    entry()
