"""What a command line imports beyond Python itself: every installed distribution counts, listed by nobody."""

from __future__ import annotations

# Run the command line, then print the third-party packages that it imported and its code, the last line of stderr.
IMPORTED = """
import json, sys
before = set(sys.modules)
from importlib.metadata import packages_distributions
from forgepack.cli.main import run
codes = [run(args) for args in json.loads(sys.argv[1])]
found = {name.partition(".")[0] for name in set(sys.modules) - before}
names = sorted(found & set(packages_distributions()) - {"forgepack"})
print(json.dumps({"codes": codes, "packages": names}), file=sys.stderr)
"""

# coreai, coremltools, scipy, huggingface_hub, tokenizers, rich: each takes longer than the work itself.
FOR_HELP = ["click"]
FOR_HEADERS = ["click", "ml_dtypes", "numpy"]
