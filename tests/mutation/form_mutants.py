"""Mutants of what programs declare, and of the target's own: its head, and the taps of its chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from forgepack.coreai_backend.program import AssetProgram
from tests.mutation.program_mutants import ProgramMutant, port_mutants, program_mutants, with_ports
from tests.mutation.stage import Mutant, Stage

Pairs = tuple[tuple[str, str], ...]
_TAP = re.compile(r"tap[0-9]+|y")

# Legal changes of the target's programs, with their reasons.
LEGAL: tuple[tuple[str, str], ...] = (
    (r"target head: .*: name", "constants are known by where they are used"),
    (r"target head: .* broadcasting_(mul|add|maximum): operands exchanged", "they commute"),
)


def form_mutants(stage: Stage) -> Iterator[Mutant]:
    """Yield the mutants of declarations of the drafter's program, of the target's head, and of the chunks' taps."""
    for one in declaration_mutants(stage.drafter):
        yield Mutant(subject="declaration", place=one.place, kind=one.kind, areas=("PKG",), program=one.program)
    for package, program in sorted(stage.target_programs.items()):
        if package == stage.head_package:
            found: tuple[ProgramMutant, ...] = (*program_mutants(program), *declaration_mutants(program))
            subject, areas = "target head", ("HEAD", "PKG")
        else:
            found = tuple(_tap_mutants(program, package))
            subject, areas = "chunk", ("TAP", "PKG")
        for one in found:
            yield Mutant(
                subject=subject, place=one.place, kind=one.kind, areas=areas, program=one.program, package=package
            )


def declaration_mutants(program: AssetProgram) -> Iterator[ProgramMutant]:
    """Yield a program with each declared text changed or missing, and with one more at each place."""
    for kind, pairs in _changed(program.declaration):
        yield ProgramMutant(place="program", kind=kind, program=replace(program, declaration=pairs))
    for number, function in enumerate(program.functions):
        for kind, pairs in _changed(function.declaration):
            functions = list(program.functions)
            functions[number] = replace(function, declaration=pairs)
            yield ProgramMutant(place=function.name, kind=kind, program=replace(program, functions=tuple(functions)))
    for number, constant in enumerate(program.constants):
        for kind, pairs in _changed(constant.declaration):
            constants = list(program.constants)
            constants[number] = replace(constant, declaration=pairs)
            place = constant.name or f"inline {number}"
            yield ProgramMutant(place=place, kind=kind, program=replace(program, constants=tuple(constants)))


def _changed(pairs: Pairs) -> Iterator[tuple[str, Pairs]]:
    for number, (name, text) in enumerate(pairs):
        yield f"declared {name}: changed", (*pairs[:number], (name, f"{text} #x"), *pairs[number + 1 :])
        yield f"declared {name}: missing", (*pairs[:number], *pairs[number + 1 :])
    for name in ("x", "__coreai_x__"):
        yield f"declared {name}: added", (*pairs, (name, "unit"))


def _tap_mutants(program: AssetProgram, package: str) -> Iterator[ProgramMutant]:
    """Yield the mutants of a chunk's outputs that hand taps over; its other ports are bound by its digest alone."""
    for number, function in enumerate(program.functions):
        others = (program.functions[:number], program.functions[number + 1 :])
        taps = {n for n, port in enumerate(function.outputs) if _TAP.fullmatch(port.name) and port.name != "y"}
        for place, kind, ports in port_mutants(function.outputs, f"{function.name}.outputs"):
            match = re.search(r"\[(\d+)\]", place)
            if taps and (match is None or int(match[1]) in taps):
                functions = (*others[0], with_ports(function, "outputs", ports), *others[1])
                yield ProgramMutant(
                    place=f"{package}: {place}", kind=kind, program=replace(program, functions=functions)
                )
        for kind, pairs in _changed(function.declaration):
            if any(f"outputs[{tap}]" in kind for tap in taps):
                functions = (*others[0], replace(function, declaration=pairs), *others[1])
                yield ProgramMutant(
                    place=f"{package}: {function.name}", kind=kind, program=replace(program, functions=functions)
                )
