"""The environment that this tool's child processes get: what Python, its libraries and a locale need, no more.

A child loads Apple's native code on hostile input, so nothing in it may be worth stealing: tokens of the hub, clouds
and CI services stand in variables. What is not known to be needed is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NEEDED = re.compile(
    r"PATH|HOME|USER|LOGNAME|TMPDIR|TEMP|TMP|TZ|LANG|LANGUAGE|LC_[A-Z]+|__CF_USER_TEXT_ENCODING|XDG_CACHE_HOME"
    r"|PYTHON(PATH|HOME|HASHSEED|DONTWRITEBYTECODE|PYCACHEPREFIX|NOUSERSITE|USERBASE|FAULTHANDLER|WARNINGS|MALLOC"
    r"|SAFEPATH|DEVMODE|UTF8|COERCECLOCALE|IOENCODING)|VIRTUAL_ENV|CONDA_PREFIX"
    r"|(OMP|OPENBLAS|GOTO|MKL|BLIS|VECLIB|NUMEXPR)_(NUM|MAX|MAXIMUM)_THREADS|OPENBLAS_CORETYPE|OMP_[A-Z]+|KMP_[A-Z_]+"
    r"|(LD|DYLD)_(PRELOAD|(FALLBACK_)?(LIBRARY|FRAMEWORK)_PATH|INSERT_LIBRARIES)"
)


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``environ`` that a child process is given."""
    return {name: value for name, value in environ.items() if _NEEDED.fullmatch(name)}
