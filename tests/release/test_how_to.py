"""The how-to pages: each command that they show exists with its options, and recipes run where their tools are."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from forgepack.cli.main import forgepack
from forgepack.schema_check import schema_faults
from forgepack.verify.policy.rule import all_rules, find_rule
from tests.hub.conftest import client_home  # noqa: F401  (an autouse fixture: nothing of this machine's settings)
from tests.hub.loopback import LoopbackHub
from tests.release.bench import judged
from tests.verify.running import explain_all

PAGES = Path(__file__).parents[2] / "docs/how-to"
# Pages of sessions are run whole by tests/docs.
NAMES = tuple(sorted(page.name for page in PAGES.glob("*.md") if "```console" not in page.read_text("utf-8")))
COMMAND = re.compile(r"forgepack [a-z][^`\n|)\"]*")
REPO, COMMIT = "tests/release", "cd" * 20


def shown_commands() -> Iterator[tuple[str, str]]:
    """Yield (page, command line) of every forgepack command in a code block or between backticks."""
    for name in NAMES:
        text = (PAGES / name).read_text()
        code = [line for line in text.splitlines() if line.startswith("    ")] + re.findall(r"`([^`\n]+)`", text)
        yield from ((name, match.group()) for line in code for match in COMMAND.finditer(line))


def test_pages_show_commands() -> None:
    """Each page shows at least one."""
    assert set(NAMES) == {name for name, _ in shown_commands()}


@pytest.mark.parametrize(("page", "line"), sorted(set(shown_commands())))
def test_each_command_and_option_exists(page: str, line: str) -> None:
    """Commands and long options of the pages are those of the tool."""
    name, *words = shlex.split(line)[1:]
    command = forgepack.get_command(click.Context(forgepack), name)
    assert command is not None, (page, line)
    known = {text for param in command.params for text in (*param.opts, *param.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known | {"--help"}, (page, line)


def test_recipe_of_the_page_is_valid() -> None:
    """Each sample of forgepack.toml follows the schema that editors use."""
    text = (PAGES / "build-from-a-recipe.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert 2 == len(blocks)
    for block in blocks:
        assert () == schema_faults(tomllib.loads(block), "forgepack_toml")


def test_files_of_the_page_are_valid() -> None:
    """The sample waivers and the sample deny list follow their schemas, and their waived rule may be waived."""
    blocks = re.findall(r"```toml\n(.*?)```", (PAGES / "waive-and-attest.md").read_text(), re.DOTALL)
    waivers, deny = (tomllib.loads(block) for block in blocks)
    for waiver in waivers["waiver"]:
        waiver["expires"] = waiver["expires"].isoformat()
    assert ((), ()) == (schema_faults(waivers, "waivers"), schema_faults(deny, "deny"))
    assert all(find_rule(waiver["rule"]).waivable for waiver in waivers["waiver"])


def test_page_names_the_errors_that_may_be_waived() -> None:
    """The list of the page is the code's, and each rule that it names exists."""
    text = (PAGES / "waive-and-attest.md").read_text()
    named = set(re.findall(r"\b[A-Z]{3,4}[0-9]{3}\b", text))
    assert {one.id for one in all_rules() if one.severity == "error" and one.waivable} <= named | {
        f"LIC00{number}" for number in range(2, 5)
    }
    assert named <= {one.id for one in all_rules()}


def test_release_downloaded_by_the_hubs_command_verifies(released: Path, tmp_path: Path) -> None:
    """Hf download at a commit gives a folder that passes; the client's own files in it are no fault."""
    tool = shutil.which("hf", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if tool is None:
        pytest.skip("the hub's command is not installed")
    with LoopbackHub.serve({REPO: {COMMIT: released}}) as hub:
        env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        command = [tool, "download", REPO, "--revision", COMMIT, "--local-dir", str(tmp_path / "release")]
        subprocess.run(command, env=env, capture_output=True, check=True)
    assert (tmp_path / "release/.cache").is_dir()
    report = judged(tmp_path / "release")
    assert "pass" == report.verdict, explain_all(report)


def test_signature_of_the_record_holds_beside_a_partial_download(bundle: Path, tmp_path: Path) -> None:
    """model-signing signs forgepack.json; the signature verifies without the export, and not over another record."""
    signing, openssl = shutil.which("model_signing"), shutil.which("openssl")
    if signing is None or openssl is None:
        pytest.skip("model_signing and openssl are not on the path")
    private, public, signature = (tmp_path / name for name in ("key.pem", "key.pub", "forgepack.json.sig"))

    def call(*words: object) -> int:
        return subprocess.run([str(word) for word in words], capture_output=True, check=False).returncode

    record = bundle / "forgepack.json"
    assert 0 == call(openssl, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", private)
    assert 0 == call(openssl, "ec", "-in", private, "-pubout", "-out", public)
    assert 0 == call(signing, "sign", "key", record, "--private_key", private, "--signature", signature)
    shutil.rmtree(bundle / "export")
    check = [signing, "verify", "key", record, "--public_key", public, "--signature", signature]
    assert 0 == call(*check)
    assert "pass" == judged(bundle).verdict
    record.write_text(record.read_text().replace("tests/tiny", "tests/other"))
    assert 0 != call(*check)
