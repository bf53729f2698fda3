"""The public face is what it says: nothing weaker than the commands, typed, silent, cheap, and blind to variables."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forgepack import api
from forgepack.calls.releasing import chosen_of
from forgepack.cli.main import run
from forgepack.miniature.scene import Scene
from forgepack.profile import DEFAULT_PROFILE
from tests.docs.reference_api import documented

ROOT = Path(__file__).parents[1]
IMPORTED = """
import json, sys
from importlib.metadata import packages_distributions
before = set(sys.modules)  # what the environment's own .pth files import
from forgepack import api
found = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(found & set(packages_distributions()) - {"forgepack"})))
"""


def verified(scene: Scene, **options: Any) -> api.Report:
    pair = {"quant": scene.quant, "checkpoint": scene.checkpoint, "profile": "mini", "depth": "hash"}
    return api.verify(scene.drafter, target=scene.miniature.target, **{**pair, **options})


def test_every_name_is_documented_and_there() -> None:
    """The page of the reference has a heading or a row for each name, and for no other."""
    assert set(api.__all__) == documented()
    assert [] == [name for name in api.__all__ if not getattr(api, name).__doc__]
    with pytest.raises(AttributeError, match="no attribute 'verify_all'"):
        _ = api.verify_all  # type: ignore[attr-defined]


def test_an_import_needs_nothing_else() -> None:
    """To import the face imports no installed package."""
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert ([], "") == (json.loads(done.stdout), done.stderr)


def test_the_face_holds_no_way_to_print_exit_or_read_variables() -> None:
    """Neither api.py nor the functions behind it name print, exit, a stream, or the environment."""
    names = re.compile(r"\b(print|exit|stdout|stderr|environ|getenv|click)\b")
    for path in (ROOT / "forgepack/api.py", *(ROOT / "forgepack/calls").glob("*.py")):
        code = [ast.dump(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)]
        code += [node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        assert [] == [text for text in code if names.search(text)], path.name


def test_a_report_is_the_commands(scene: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    """The function and the command of its name give one report, but for who chose the options; it says nothing."""
    given = {"target": scene.miniature.target, "quant": scene.quant, "checkpoint": scene.checkpoint}
    called = json.loads(api.render(verified(scene), "json"))
    assert ("", "") == tuple(capfd.readouterr())
    words = [f"--{name}={path}" for name, path in given.items()]
    assert 0 == run(["verify", str(scene.drafter), *words, "--profile=mini", "--depth=hash", "--format=json"])
    shown = json.loads(capfd.readouterr().out)
    chosen = [{"name": n, "value": v} for n, v in sorted({**given, "depth": "hash", "profile": "mini"}.items())]
    expected = [{**one, "value": str(one["value"]), "source": "caller", "place": ""} for one in chosen]
    assert expected == called["options"]
    assert {**shown, "options": None} == {**called, "options": None}


def test_what_weakens_a_check_shows_in_the_report(scene: Scene) -> None:
    """Links that are followed, rules that are left out and a verdict that is forgiven are among the options."""
    accept = api.Acceptance(ignore=("LIC",), exit_zero=True)
    report = verified(scene, allow_links=True, accept=accept)
    found = {one.name: one.value for one in report.options if one.name not in ("target", "quant", "checkpoint")}
    expected = {"allow-links": "true", "depth": "hash", "exit-zero": "true", "ignore": "LIC", "profile": "mini"}
    assert expected == found
    assert report.not_selected > 0
    assert {"caller"} == {one.source for one in report.options}


def test_a_build_lists_what_decides_its_verification() -> None:
    """Options of a build's request that judge are told with their files' names, for no folder may show."""
    request = api.BuildRequest(
        checkpoint=Path("/a/checkpoint"),
        traces=Path("/a/traces.npz"),
        target=api.TargetParts(root=Path("/a/target")),
        output=Path("/a/release"),
        work=Path("/a/work"),
        depth=api.Depth.RUN,
        strict=True,
        deny=(Path("/a/one.json"), Path("/a/two.json")),
        waivers=Path("/a/waivers.toml"),
    )
    found = {one.name: one.value for one in chosen_of(request, "mini")}
    expected = {"deny": "one.json, two.json", "depth": "run", "profile": "mini", "strict": "true"}
    assert {**expected, "waivers": "waivers.toml"} == found
    plain = dataclasses.replace(request, depth=api.Depth.LINEAGE, strict=False, deny=(), waivers=None)
    assert () == chosen_of(plain, DEFAULT_PROFILE)


def test_an_edited_output_is_never_replaced(scene: Scene, tmp_path: Path) -> None:
    """With force a folder that somebody edited stays as it is, as on the command line."""
    out = tmp_path / "drafter"
    shutil.copytree(scene.drafter, out)
    (out / "NOTICE").write_text("mine")
    target = scene.miniature.target
    with pytest.raises(api.UsageError, match="not as forgepack wrote them"):
        api.emit(scene.quant, out, checkpoint=scene.checkpoint, target=target, profile="mini", force=True)
    assert "mine" == (out / "NOTICE").read_text()


BAD: dict[str, tuple[str, Callable[[Scene], object]]] = {
    "depth": ("the depth", lambda s: verified(s, depth="deep")),
    "blocks": ("number of blocks", lambda s: verified(s, blocks=0)),
    "timeout": ("time for each reading", lambda s: verified(s, timeout=float("nan"))),
    "waivers": ("the day is not named", lambda s: verified(s, accept=api.Acceptance(waivers=Path("w.toml")))),
    "select": ("start of a rule's id", lambda s: verified(s, accept=api.Acceptance(select=("NONE",)))),
    "profile": ("no such profile", lambda s: verified(s, profile="none")),
    "drafter": ("does not exist", lambda s: api.verify("nowhere", target=s.miniature.target, profile="mini")),
    "attested release": (
        "an attestation is of",
        lambda _: api.verify_published(
            f"o/n@{'a' * 40}", accept=api.Acceptance(evidence=(Path("x"),)), profile="mini"
        ),
    ),
    "hub": ("REPO@COMMIT", lambda _: api.verify_published("nothing", profile="mini")),
    "wait": ("longest wait", lambda _: api.fetch("out", timeout=-1.0, profile="mini")),
    "bundle's depth": (
        "the depth",
        lambda s: api.bundle(s.drafter, "out", target=s.miniature.target, depth="header", profile="mini"),
    ),
    "method": ("no such method", lambda _: api.QuantizeOptions(method="none")),  # type: ignore[arg-type]
    "form": ("no such form", lambda s: api.render(verified(s, depth="header"), "pdf")),  # type: ignore[arg-type]
    "created": (
        "creation date",
        lambda s: api.emit(
            s.quant, "out", checkpoint=s.checkpoint, target=s.miniature.target, profile="mini", created=-1
        ),
    ),
    "no drafter": (
        "nothing to replay",
        lambda s: api.replay([], target=s.miniature.target, traces=s.miniature.held_out, profile="mini"),
    ),
    "mask scale": (
        "mask scale",
        lambda s: api.replay(
            [s.checkpoint], target=s.miniature.target, traces=s.miniature.held_out, profile="mini", mask_scale=2.0
        ),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_a_usage_error(
    name: str, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the command line's options refuse, the functions refuse as well, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    text, call = BAD[name]
    with pytest.raises(api.UsageError, match=text):
        call(scene)
    assert [] == list(tmp_path.iterdir())


def test_a_program_of_others_is_typed(tmp_path: Path) -> None:
    """A program outside of the repository that uses the face passes mypy --strict, and a wrong one does not."""
    pytest.importorskip("mypy", reason="mypy is not installed; --group lint brings it")
    shutil.copyfile(ROOT / "tests/consumer.py", tmp_path / "consumer.py")
    (tmp_path / "wrong.py").write_text(
        "from forgepack import api\n\nverdict: int = api.Report.verdict\napi.verfy()\n"
    )
    words = ["--strict", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache/consumer'}", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *words, "--follow-imports=silent", "consumer.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [line.rpartition("[")[2] for line in done.stdout.splitlines()]
    assert ("", 1, ["assignment]", "attr-defined]"]) == (done.stderr, done.returncode, found), done.stdout
