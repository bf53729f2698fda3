"""Whatever writes goes through forgepack/disk: the source is walked, and what writes elsewhere is named."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "forgepack"
WRITING_MODES = frozenset("wxa+")
METHODS = frozenset(
    {"write_text", "write_bytes", "touch", "unlink", "rmdir", "mkdir", "symlink_to", "hardlink_to", "chmod", "rmtree"}
    | {"copyfile", "copytree", "makedirs", "truncate", "ftruncate", "savez", "tofile"}
    | {"NamedTemporaryFile", "TemporaryDirectory", "mkstemp", "mkdtemp", "TemporaryFile"}
)
# What other values have methods of, too.
OF_MODULES = {"os": {"remove", "link", "symlink"}, "shutil": {"copy", "copy2", "move"}, "np": {"save"}}
# rename and replace of a path; str.replace and dataclasses.replace take two or named arguments.
MOVES = frozenset({"rename", "replace"})
ALLOWED = {
    "artifacts/safetensors_writer.py: ftruncate": "gives a file its size that the room has opened",
    "artifacts/safetensors_writer.py: memmap": "maps a file that the room has made",
    "cli/outcome.py: open": "standard streams, on the null device where one was closed",
    "cli/outcome.py: os.open": "the null device, where a standard stream was closed",
    "coreai_backend/child.py: tofile": "in the folder of one reading of an asset, in its child",
    "coreai_backend/execute.py: savez": "in the folder of one run of an asset",
    "coreai_backend/execution.py: savez": "in the folder of one run of an asset, in its child",
    "hub/partial_file.py: os.open": "a part is appended to, under the staging folder's lock, without following links",
    "hub/partial_file.py: os.write": "a part is appended to, under the staging folder's lock",
    "hub/partial_file.py: ftruncate": "a part is begun anew",
    "hub/staging.py: replace": "the old lock moves into the staging folder, in one step with its checks",
    "hub/staging.py: rmdir": "an empty staging folder goes, and an output folder that was made in vain",
    "miniature/sabotage.py": "spoils copies in the demo's own folder: it must be able to write anything",
    "miniature/stages.py: mkdir": "folders in the demo's own folder",
    "release/published/sparse_copy.py: truncate": "makes a hole in a file that the room opened, in one run's folder",
    "doctor/machine.py: TemporaryFile": "asks whether the folder can be written to: a file without a name",
}


def test_only_the_room_writes() -> None:
    """Every call that can write stands in forgepack/disk, or in the list with its reason; no reason is left over."""
    found = {place for path in sorted(ROOT.rglob("*.py")) for place in writes(path)}
    unknown = {place for place in found if place not in ALLOWED and place.partition(":")[0] not in ALLOWED}
    used = {place if place in ALLOWED else place.partition(":")[0] for place in found}
    assert (set(), set()) == (unknown, set(ALLOWED) - used)


def test_the_walk_sees_what_writes(tmp_path: Path) -> None:
    """Each form in which a file can be written is seen; reading is not."""
    lines = {
        'open(p, "w")': "open",
        'p.open("rb+")': "open",
        'p.open(mode="ab")': "open",
        "p.open(mode)": "open",
        "os.open(p, os.O_WRONLY | os.O_CREAT)": "os.open",
        "os.replace(a, b)": "replace",
        "a.replace(b)": "replace",
        "shutil.rmtree(p)": "rmtree",
        "p.write_bytes(b'')": "write_bytes",
    }
    for line, name in lines.items():
        (tmp_path / "x.py").write_text(line)
        assert {f"x.py: {name}"} == set(writes(tmp_path / "x.py", tmp_path)), line
    for line in ("open(p)", 'p.open("rb")', "os.open(p, os.O_RDONLY)", 'text.replace("a", "b")', "replace(x, a=1)"):
        (tmp_path / "x.py").write_text(line)
        assert [] == list(writes(tmp_path / "x.py", tmp_path)), line


def writes(path: Path, root: Path = ROOT) -> Iterator[str]:
    """Yield ``file: call`` of every call that can write."""
    name = path.relative_to(root).as_posix()
    if name.startswith("disk/"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and (call := written_by(node)) is not None:
            yield f"{name}: {call}"


def written_by(node: ast.Call) -> str | None:
    """Return the name of a call that can write, None for any other."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    if name == "open" and owner == "os":
        return "os.open" if "O_WRONLY" in ast.unparse(node) or "O_RDWR" in ast.unparse(node) or flags(node) else None
    if name == "write" and owner == "os":
        return "os.write"
    if name == "open":
        return "open" if opens_to_write(node, first=1 if owner == "" else 0) else None
    if name in MOVES:
        moved = (owner == "os" and len(node.args) == 2) or (owner != "" and len(node.args) == 1 and not node.keywords)
        return name if moved else None
    if name == "memmap":
        return name if any("+" in ast.unparse(one) for one in node.args) else None
    return name if name in METHODS or name in OF_MODULES.get(owner, ()) else None


def opens_to_write(node: ast.Call, first: int) -> bool:
    """Say whether an open may write: its mode says so, or can't be seen."""
    mode = next((one.value for one in node.keywords if one.arg == "mode"), None)
    if mode is None and len(node.args) > first:
        mode = node.args[first]
    if mode is None:
        return False
    if isinstance(mode, ast.Constant):
        return isinstance(mode.value, str) and bool(WRITING_MODES & set(mode.value))
    # A hub's open takes a file and an offset, an archive's the name of a member.
    named = isinstance(mode, ast.JoinedStr) or ast.unparse(mode) == "member"
    return first == 1 or (len(node.args) == 1 and not named)


def flags(node: ast.Call) -> bool:
    """Say whether the flags of an os.open can't be seen."""
    return len(node.args) > 1 and isinstance(node.args[1], ast.Name)
