#!/usr/bin/env bash
# Install the forgepack of this very checkout of the action into an environment of its own.
set -euo pipefail
python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' || {
    echo "::error title=forgepack::Python 3.11 to 3.14 is needed: use actions/setup-python before this action"
    exit 2
}
python3 -I -m venv "$RUNNER_TEMP/forgepack-tool"
"$RUNNER_TEMP/forgepack-tool/bin/python" -I -m pip install --quiet --disable-pip-version-check "$ACTION"
