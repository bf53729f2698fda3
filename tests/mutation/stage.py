"""A good pair whose slow inputs were read once, and the judgement of one mutant of it, in process."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from forgepack.artifacts.files import hash_file
from forgepack.coreai_backend.child import open_program
from forgepack.coreai_backend.extract import ProgramReader
from forgepack.coreai_backend.head import find_head
from forgepack.coreai_backend.head_content import content_of_program, content_of_safetensors
from forgepack.coreai_backend.program import AssetProgram
from forgepack.coreai_backend.reader import AssetReading, FoundHead
from forgepack.errors import ForgepackError
from forgepack.profile import Profile
from forgepack.verify.engine import evaluate
from forgepack.verify.findings.report import Check, Depth
from forgepack.verify.inputs.hashing import FileDigest
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.inputs.reading import Input
from forgepack.verify.inputs.sources import find_sources
from forgepack.verify.open_pair import OpenPair
from forgepack.verify.policy.rule import Rule, all_rules

Ending = Literal["refused", "warned", "elsewhere", "passed", "crashed"]
_PROGRAMS = ("expected", "program", "target_programs", "export_digest")
# What a rule reads that compares with the binding.
_BOUND = {"binding", "target_record", "comparison", "roles"}
# What follows from the program alone, so that only mutants of it need it again.
_DERIVED = ("comparison",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of a good pair: of a file (removed without ``make``, or one more), or of the parsed program.

    ``along`` gives other files' new bytes, as of one who brings a record of the file up to date, by its new bytes.
    ``subject`` groups mutants for the score, ``areas`` are those whose rules should refuse this one. An ``unbound``
    one stands for a pair that was emitted over the change: rules that compare with the binding are left out.
    ``package`` is the target's package whose program it is, the drafter's own when empty.
    """

    subject: str
    place: str
    kind: str
    areas: tuple[str, ...]
    file: str = ""
    make: Callable[[], bytes] | None = None
    along: Callable[[bytes], Mapping[str, bytes]] = lambda _: {}
    program: AssetProgram | None = None
    unbound: bool = False
    package: str = ""

    @property
    def name(self) -> str:
        """What was changed, in one line."""
        return f"{self.subject}: {self.place or 'the whole'}: {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a mutant ended: refused or warned of by a rule of its areas, by another one, not at all."""

    mutant: Mutant
    ending: Ending
    rule: str = ""
    detail: str = ""


class Stage:
    """A working copy of a good pair: checkpoint, quant, target, drafter below ``root``."""

    def __init__(self, root: Path, profile: Profile) -> None:
        self.root, self.profile = root, profile
        base = self._pair()
        with base.read_ahead():
            self._values = {name: base.input(name).value for name in (*_PROGRAMS, *_DERIVED)}
        self.head_package = base.manifest.value.head_file
        self._payloads: ProgramReader | None = None
        self._refusers: Counter[tuple[str, str]] = Counter()
        self._digests: dict[Path, FileDigest] = dict(base.digests.value)

    @property
    def drafter(self) -> AssetProgram:
        """The good package's program."""
        reading: AssetReading = self._values["program"]
        return reading.program

    @property
    def target_programs(self) -> dict[str, AssetProgram]:
        """The programs of the target's packages by name."""
        readings: dict[str, AssetReading] = self._values["target_programs"]
        return {name: reading.program for name, reading in readings.items()}

    def _read_again(self, program: AssetProgram, package: str) -> dict[str, AssetReading]:
        """Return the target's programs with one changed: its head is found again, over the file's own constants."""
        readings: dict[str, AssetReading] = dict(self._values["target_programs"])
        files = readings[package].files
        head: FoundHead | ForgepackError | None = None
        if package == self.head_package:
            if self._payloads is None:  # read in this process once: a good asset
                self._payloads = open_program(files.program, where=package, digests=False)
            try:
                found = find_head(program, package)
                content = content_of_program(program, found, self._payloads.payload, package)
                head = FoundHead(head=found, digest=content.digest())
            except ForgepackError as err:
                head = err
        readings[package] = AssetReading(files=files, program=program, head=head)
        return readings

    def _pair(self) -> Pair:
        root = self.root
        found = find_sources(root / "drafter", root / "target", quant=root / "quant", checkpoint=root / "checkpoint")
        return OpenPair(found, self.profile, Depth.LINEAGE, seconds=60)

    def judge(self, mutant: Mutant) -> Outcome:
        """Apply a mutant, evaluate its areas' rules until one refuses, else all others; undo the mutant."""
        changed: dict[str, bytes | None] = {}
        if mutant.make is not None:
            made = mutant.make()
            changed = {mutant.file: made, **mutant.along(made)}
        elif mutant.file:
            changed = {mutant.file: None}
        kept = {file: path.read_bytes() if (path := self.root / file).exists() else None for file in changed}
        try:
            for file, data in changed.items():
                if data is None:
                    (self.root / file).unlink()
                else:
                    (self.root / file).write_bytes(data)
            return self._judged(mutant, tuple(changed))
        except Exception as err:  # noqa: BLE001  (a mutant on which the verifier dies is an outcome of its own)
            detail = "".join(traceback.format_exception(err)[-3:])
            return Outcome(mutant=mutant, ending="crashed", detail=detail)
        finally:
            for file, data in kept.items():
                if data is not None:
                    (self.root / file).write_bytes(data)
                else:
                    (self.root / file).unlink()

    def _judged(self, mutant: Mutant, changed: tuple[str, ...]) -> Outcome:
        pair = self._with_known_inputs(self._pair(), mutant, changed)
        rules = [one for one in all_rules() if not mutant.unbound or not _BOUND & {*one.needs, *one.each_of}]
        own = [one for one in rules if one.area in mutant.areas]
        # Those that refused most mutants of this subject first: this changes what it costs, not how it ends.
        own.sort(key=lambda r: (-self._refusers[mutant.subject, r.id], r.depth))
        checks = _first_refusal(own, pair)
        if checks and _refuses(checks[-1]):
            self._refusers[mutant.subject, checks[-1].id] += 1
            return Outcome(mutant=mutant, ending="refused", rule=checks[-1].id, detail=_detail(checks[-1]))
        warned = next((check for check in checks if check.status == "fail" and check.severity == "warning"), None)
        rest = _first_refusal([one for one in rules if one.area not in mutant.areas], pair)
        refused = bool(rest) and _refuses(rest[-1])
        if warned is not None:  # named by its area; refused when any rule refuses
            ending: Ending = "refused" if refused else "warned"
            return Outcome(mutant=mutant, ending=ending, rule=warned.id, detail=_detail(warned))
        if refused:
            return Outcome(mutant=mutant, ending="elsewhere", rule=rest[-1].id, detail=_detail(rest[-1]))
        return Outcome(mutant=mutant, ending="passed", detail=", ".join(c.id for c in rest if c.status == "fail"))

    def _with_known_inputs(self, pair: Pair, mutant: Mutant, changed: tuple[str, ...]) -> Pair:
        """Put in what the mutant does not change: digests of the other files, programs that were read before."""
        values: dict[str, Any] = dict(self._values)
        digests = dict(self._digests)
        for path in (self.root / file for file in changed):
            digests.pop(path, None)
            if path.exists():
                size, sha256 = hash_file(path)
                digests[path] = FileDigest(bytes=size, sha256=sha256)
        values["digests"] = digests
        if mutant.program is not None and mutant.package:
            values["target_programs"] = self._read_again(mutant.program, mutant.package)
        elif mutant.program is not None:
            reading: AssetReading = values["program"]
            values = {name: value for name, value in values.items() if name not in _DERIVED}
            values["program"] = AssetReading(files=reading.files, program=mutant.program, head=reading.head)
        for name, value in values.items():
            setattr(pair, name, Input(name, lambda known=value: known, depth=pair.input(name).depth))  # type: ignore[misc]
        if mutant.file.endswith("lm_head.safetensors"):  # in this process: a child a mutant would take an hour
            read = lambda: content_of_safetensors(pair.head.value).digest()  # noqa: E731
            pair.export_digest = Input("export_digest", read, depth=Depth.LINEAGE)
        return pair


def _first_refusal(rules: Sequence[Rule], pair: Pair) -> list[Check]:
    """Evaluate rules in order up to the first that refuses; return the outcomes."""
    checks: list[Check] = []
    for one in rules:
        checks.append(evaluate(one, pair, []))
        if _refuses(checks[-1]):
            break
    return checks


def _refuses(check: Check) -> bool:
    return check.status == "fail" and check.severity == "error"


def _detail(check: Check) -> str:
    first = check.findings[0]
    return f"{first.where}: expected {first.expected[:60]}, found {first.found[:60]}"
