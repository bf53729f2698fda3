"""``forgepack verify`` as a gate: exit codes, formats, reports, and what it never does."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from forgepack.artifacts.files import hash_file
from forgepack.artifacts.tree import walk
from forgepack.cli.main import run
from forgepack.render import FORMATS
from forgepack.resources import schema_path
from tests.cli.imports import FOR_HEADERS, IMPORTED
from tests.verify.sabotage import ASSET, CONFIG, HEAD, SIDECAR, put, remove, write

PROJECT = Path(__file__).parents[2]
NOBODY = 65534
BLOCK = "import sys; sys.modules['coreai'] = None; from forgepack.cli.main import run; sys.exit(run(sys.argv[1:]))"


def arguments(root: Path, depth: str, *more: str) -> list[str]:
    return [
        "verify",
        str(root / "drafter"),
        *("--target", str(root / "target")),
        *("--profile", str(root / "profile.json")),
        *("--depth", depth),
        *more,
    ]


def call(
    args: list[str], *, code: str = "", cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-c", code] if code else ["-m", "forgepack"]), *args]
    variables = {**(os.environ if environment is None else environment), "PYTHONPATH": str(PROJECT)}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=variables)


def snapshot(root: Path) -> dict[str, object]:
    """Return every entry below a folder with mode, size, time of change and digest."""
    found: dict[str, object] = {}
    for entry in walk(root):
        status = (root / entry.path).lstat()
        digest = hash_file(root / entry.path)[1] if entry.kind == "file" else ""
        found[entry.path] = (stat.S_IMODE(status.st_mode), status.st_size, status.st_mtime_ns, digest)
    return found


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run the body without the rights of root, so that permissions count; imports must be done already."""
    root = os.geteuid() == 0
    if root:
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
            os.setegid(0)


@contextmanager
def public_copy(root: Path) -> Iterator[Path]:
    """Give a copy of a pair that any user may read, outside pytest's private folders."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        copy = Path(shutil.copytree(root, Path(name) / "pair"))
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield copy


@pytest.mark.parametrize("name", FORMATS)
def test_a_good_pair_passes_in_every_format(
    base: Path, capsysbinary: pytest.CaptureFixture[bytes], name: str
) -> None:
    """Exit 0, data on stdout, nothing on stderr."""
    assert 0 == run(arguments(base, "hash", "--format", name))
    done = capsysbinary.readouterr()
    assert (b"", True) == (done.err, done.out.endswith(b"\n"))


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_never_changes_the_code(pair: Path, capsysbinary: pytest.CaptureFixture[bytes], name: str) -> None:
    """A refusal is exit 1 in every format, and the rule is named in each."""
    remove("drafter/LICENSE")(pair)
    assert 1 == run(arguments(pair, "header", "--format", name))
    assert b"LIC001" in capsysbinary.readouterr().out


def test_default_depth_is_lineage(base: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Without --depth everything up to lineage is checked; the JSON names inputs, verdict and every check."""
    args = [a for a in arguments(base, "x", "--format", "json") if a not in ("--depth", "x")]
    assert 0 == run(args)
    report = json.loads(capsysbinary.readouterr().out)
    assert ("lineage", "pass", 2) == (report["depth"], report["verdict"], report["schema_version"])
    assert {"drafter", "target"} == set(report["inputs"])
    assert 64 == len(report["inputs"]["drafter"]["digests"]["program_sha256"])
    assert report["counts"]["checks"] == len(report["checks"])


def test_reports_follow_their_schema(pair: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """JSON of a pass, a refusal and an unfinished run is valid under schemas/report.schema.json."""
    import jsonschema

    schema = json.loads(schema_path("report").read_bytes())
    for change in (None, remove(SIDECAR), write(CONFIG, b"{" + b" " * (2 << 20))):
        if change is not None:
            change(pair)
        run(arguments(pair, "header", "--format", "json"))
        jsonschema.Draft202012Validator(schema).validate(json.loads(capsysbinary.readouterr().out))


def test_same_input_same_bytes(pair: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Two runs print the same report, findings included."""
    put(CONFIG, "hidden_size", value=64)(pair)
    outputs = []
    for _ in range(2):
        run(arguments(pair, "hash", "--format", "json"))
        outputs.append(capsysbinary.readouterr().out)
    assert outputs[0] == outputs[1]


def test_several_reports_at_once(base: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Each --report is written whole; stdout keeps its own format."""
    files = {name: tmp_path / f"report.{name}" for name in ("sarif", "junit", "json")}
    more = [text for name, path in files.items() for text in ("--report", f"{name}={path}")]
    assert 0 == run(arguments(base, "header", *more))
    assert capsysbinary.readouterr().out.startswith(b"PASS")
    assert "2.1.0" == json.loads(files["sarif"].read_bytes())["version"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in files.values())


@pytest.mark.parametrize("text", ["sarif", "pdf=x", "sarif=", "=x"])
def test_ill_formed_report_option(base: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--report takes a known format and a file (exit 2)."""
    assert 2 == run(arguments(base, "header", "--report", text))
    assert "FORMAT=FILE" in capsys.readouterr().err


def test_report_inside_what_is_verified(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report is never written into the drafter or the target (exit 2)."""
    assert 2 == run(arguments(pair, "header", "--report", f"json={pair}/drafter/report.json"))
    assert not (pair / "drafter/report.json").exists()
    assert "nothing may be written there" in capsys.readouterr().err


def test_report_that_can_not_be_written(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unwritable report is exit 5, even when the pair is refused."""
    remove("drafter/LICENSE")(pair)
    assert 5 == run(arguments(pair, "header", "--report", f"json={pair}/nowhere/report.json"))
    assert "could not be written" in capsys.readouterr().err


def test_usage(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Paths that do not exist, a file for a folder, no target, an unknown profile: exit 2, each told."""
    drafter, target = str(base / "drafter"), str(base / "target")
    profile = ["--profile", str(base / "profile.json")]
    for args, words in (
        ([drafter + "x", "--target", target, *profile], "does not exist"),
        ([str(base / CONFIG), "--target", target, *profile], "not a folder"),
        ([drafter, *profile], "the target is not named"),
        ([drafter, "--target", target, "--profile", "mni"], "did you mean mini"),
        ([drafter, "--target", target, "--depth", "deep"], "deep"),
    ):
        assert 2 == run(["verify", *args]), args
        assert words in capsys.readouterr().err


def test_nothing_to_verify(tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty folder is exit 3, and the message names what was expected."""
    args = ["verify", str(tmp_path), "--target", str(base / "target"), "--profile", str(base / "profile.json")]
    assert 3 == run(args)
    assert "dflash2_lut4_gptq.aimodel" in capsys.readouterr().err


def test_over_a_limit(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A config of two megabytes is over the limit: exit 4, verdict error, and the rest is still checked."""
    write(CONFIG, b"{" + b" " * (2 << 20))(pair)
    remove("drafter/LICENSE")(pair)
    assert 4 == run(arguments(pair, "header"))
    text = capsys.readouterr().out
    assert text.startswith("ERROR")
    assert "LIC001" in text


def test_unreadable_is_not_missing(base: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """A file without permission ends as exit 4, never as a finding that it is missing."""
    with public_copy(base) as root:
        args = arguments(root, "hash", "--format", "json")
        assert 0 == run(args)
        (root / "target/model/tokenizer.json").chmod(0)
        capsysbinary.readouterr()
        with as_nobody():
            code = run(args)
    report = json.loads(capsysbinary.readouterr().out)
    assert (4, "error") == (code, report["verdict"])
    (failure,) = report["errors"]
    assert ("unreadable", "model/tokenizer.json") == (failure["code"], failure["where"])
    failed = {check["severity"] for check in report["checks"] if check["status"] == "fail"}
    assert failed <= {"note"}


def test_read_only_without_home_or_network(base: Path) -> None:
    """The default depth works without HOME on folders that can't be written, and changes nothing in them."""
    with public_copy(base) as root:
        for path in [root, *root.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = snapshot(root)
        done = call(arguments(root, "lineage"), environment={"PATH": os.environ["PATH"]})
        assert (0, "") == (done.returncode, done.stderr), done.stdout
        assert before == snapshot(root)
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755)


def test_without_core_ai(base: Path) -> None:
    """Depths header and hash work without Core AI; lineage says so and ends with exit 7."""
    for depth, code in (("header", 0), ("hash", 0), ("lineage", 7)):
        done = call(arguments(base, depth, "--format", "json"), code=BLOCK)
        report = json.loads(done.stdout)
        assert code == done.returncode == report["exit_code"], done.stderr
    assert "error" == report["verdict"]
    assert {"coreai-missing"} == {failure["code"] for failure in report["errors"]}


def test_header_depth_imports_nothing_heavy(base: Path) -> None:
    """Headers need no installed package but click, NumPy and its dtypes, whatever is installed."""
    done = call([json.dumps([arguments(base, "header")])], code=IMPORTED)
    found = json.loads(done.stderr.splitlines()[-1])
    assert ([0], FOR_HEADERS) == (found["codes"], found["packages"])


def test_strange_paths(base: Path, tmp_path: Path) -> None:
    """Spaces, quotes, a leading dash and letters beyond ASCII in paths change nothing."""
    root = Path(shutil.copytree(base, tmp_path / "-a b'c\" Ω"))
    done = call(
        ["verify", "--target", "target", "--profile", "profile.json", "--depth", "hash", "--", "drafter"], cwd=root
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    named = call(arguments(root, "hash", "--format", "json"))
    assert 0 == named.returncode
    assert str(tmp_path) not in json.dumps(json.loads(named.stdout)["checks"])


def test_damaged_asset_is_exit_1(pair: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """A program that kills its reader is a finding, never an internal error."""
    path = pair / ASSET / "main.mlirb"
    path.write_bytes(path.read_bytes()[:200])
    assert 1 == run(arguments(pair, "lineage", "--format", "json"))
    report = json.loads(capsysbinary.readouterr().out)
    assert "PKG017" in [check["id"] for check in report["checks"] if check["status"] == "fail"]


def test_hanging_reader_is_ended(base: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """--timeout bounds each reading of an asset; a reading that takes longer is refused, not waited for."""
    assert 1 == run(arguments(base, "lineage", "--timeout", "0.001", "--format", "json"))
    report = json.loads(capsysbinary.readouterr().out)
    failed = [check for check in report["checks"] if check["status"] == "fail" and check["severity"] != "note"]
    refused = {check["id"]: check["found"] for check in failed}
    assert ["PKG017"] == list(refused)
    assert "no answer within 0.001 s" in refused["PKG017"]


def test_verbose_lists_every_check(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-v names each check that passed, and on stderr each rule as it runs."""
    assert 0 == run([*arguments(base, "header"), "-v"])
    done = capsys.readouterr()
    assert "pass    TAP001" in done.out
    assert "TAP001" in done.err


def test_explain_rules_and_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """A rule is explained by its id, all are listed, a schema is printed; unknown names are usage errors."""
    assert 0 == run(["explain", "head003"])
    text = capsys.readouterr().out
    assert text.startswith("HEAD003  the package's head is the target export's, by content")
    assert 0 == run(["explain", "--all", "--json"])
    everything = json.loads(capsys.readouterr().out)
    assert 0 == run(["rules", "--format", "json"])
    assert everything == json.loads(capsys.readouterr().out)
    assert 0 == run(["rules", "--format", "markdown"])
    assert len(everything) + 2 == len(capsys.readouterr().out.splitlines())
    assert 0 == run(["schema", "report"])
    assert "urn:forgepack:schema:report:2" == json.loads(capsys.readouterr().out)["$id"]
    assert 0 == run(["schema", "--list"])
    assert "sidecar" in capsys.readouterr().out
    for args in (["explain"], ["explain", "HAED003"], ["schema"], ["schema", "nothing"]):
        assert 2 == run(args)
    assert HEAD.endswith("lm_head.safetensors")
