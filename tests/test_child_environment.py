"""Children get what they need and nothing that is worth stealing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forgepack.child_environment import child_environment
from forgepack.coreai_backend.process import Child, Limits

ROOT = Path(__file__).parents[1]
SECRETS = (
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_ID_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN"),
    *("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CLIENT_SECRET", "CI_JOB_TOKEN", "NPM_TOKEN", "PYPI_TOKEN"),
    *("TWINE_PASSWORD", "DOCKER_AUTH_CONFIG", "SSH_AUTH_SOCK", "OPENAI_API_KEY", "HTTPS_PROXY", "PIP_INDEX_URL"),
    *("KUBECONFIG", "VAULT_TOKEN", "PYTHONANYWHERE_API_TOKEN", "LC_SECRET_KEY", "FORGEPACK_TOKEN", "OMP_API_KEY"),
)
NEEDED = (
    *("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "PYTHONHASHSEED", "VIRTUAL_ENV"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
)


def test_what_is_needed_stays_and_nothing_else() -> None:
    """A list of what is let through, so a kind of secret that nobody thought of is left out."""
    given = dict.fromkeys((*SECRETS, *NEEDED), "value")
    assert dict.fromkeys(NEEDED, "value") == child_environment(given)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux shows a process's environment")
def test_the_child_that_reads_assets_sees_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at from outside: what the process was started with."""
    for name in SECRETS:
        monkeypatch.setenv(name, "s3cret")
    with Child("forgepack.coreai_backend.child", subject="x", limits=Limits(memory=8 << 30)) as child:
        found = Path(f"/proc/{child._process.pid}/environ").read_bytes()
    assert (False, True) == (b"s3cret" in found, b"PATH=" in found)


def test_every_child_is_started_with_it() -> None:
    """No module starts a process without naming its environment."""
    faults = []
    for path in ROOT.glob("forgepack/**/*.py"):
        text = path.read_text("utf-8")
        starts = text.count("subprocess.Popen(") + text.count("subprocess.run(")
        if starts != text.count("env=child_environment("):
            faults.append(path.name)
    assert [] == faults


def test_the_tool_works_with_what_a_child_gets() -> None:
    """The reduced environment starts Python and finds this package."""
    code = "import forgepack, numpy; print(forgepack.__version__)"
    env = {**child_environment(os.environ), "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout
