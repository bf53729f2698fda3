"""The child that a verification reads programs with: ``python -m forgepack.verify.child``.

It answers what the reader's child does, and ``expected``: one start serves a whole verification.
"""

from __future__ import annotations

from forgepack.coreai_backend.child import reading
from forgepack.coreai_backend.child_process import serve
from forgepack.emit.child import expected

if __name__ == "__main__":
    serve({**reading(), "expected": expected})
