"""Whether Core AI's Python package is there, and whether it is the version that this tool was measured with."""

from __future__ import annotations

import importlib.util

from forgepack.errors import PlatformError

DISTRIBUTION = "coreai-core"
PINNED_VERSION = "1.0.0b3"


def installed_version() -> str | None:
    """Return the version of the installed ``coreai-core``, or None; imports nothing of it."""
    if importlib.util.find_spec("coreai") is None:
        return None
    from importlib import metadata  # 60 ms that depth header does without

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


def require_coreai() -> None:
    """Raise PlatformError (exit 7) unless the pinned version of Core AI's package can be imported."""
    found = installed_version()
    if found == PINNED_VERSION:
        return
    raise PlatformError(
        "Core AI's Python package is needed for this step",
        expected=f"{DISTRIBUTION} {PINNED_VERSION}",
        found="not installed" if found is None else f"{DISTRIBUTION} {found}",
        hint="it has wheels for Linux x86-64 and macOS arm64 on Python 3.11 to 3.14; "
        f"there: pip install '{DISTRIBUTION}=={PINNED_VERSION}'. Depths header and hash need none",
        code="coreai-missing" if found is None else "coreai-version",
    )
