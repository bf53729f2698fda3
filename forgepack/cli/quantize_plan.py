"""The dry run of ``forgepack quantize`` as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forgepack.quantize.plan import Plan
    from forgepack.quantize.steps import Step

_GIGA = 1e9


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return the dry run as the JSON object that --json prints."""
    rows = plan.rows
    return {
        "schema": "forgepack.quantize-plan/1",
        "dry_run": True,
        "matrices": {
            name: {"format": step.form, "shape": list(shape)}
            for step in plan.steps
            for name, shape in step.matrices.items()
        },
        "steps": [_step_json(step) for step in plan.steps],
        "rows": {
            "calibration": {"context": rows.context, "blocks": rows.block},
            "held_out": {"context": rows.held_out_context, "blocks": rows.held_out_block},
        },
        "overlap": plan.overlap.as_json(),
        "ignored": {"cycles": plan.ignored[0], "rows_beyond_tokens": plan.ignored[1]},
        "operations": sum(step.total for step in plan.steps),
        "memory": plan.memory,
        "disk": {"needed": plan.disk, "free": plan.disk_free},
    }


def _step_json(step: Step) -> dict[str, Any]:
    return {
        "matrices": list(step.matrices),
        "format": step.form,
        "rows": step.rows,
        "held_out_rows": step.held_out_rows,
        "operations": step.total,
        "memory": step.memory,
    }


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the dry run as text: a line for each matrix in the order of the work, a number for each step."""
    rows = plan.rows
    names = [name for step in plan.steps for name in step.matrices]
    width = max(map(len, names))
    yield f"{'step':>4}  {'matrix':<{width}}  format          shape    rows      Gflop    memory GB"
    for number, step in enumerate(plan.steps, 1):
        yield from _step_lines(number, step, width)
    forms = [step.form for step in plan.steps for _ in step.matrices]
    operations = sum(step.total for step in plan.steps)
    yield f"{forms.count('lut4')} matrices to LUT4, {forms.count('int8')} to INT8, in {len(plan.steps)} steps"
    yield f"calibration rows: {rows.context:,} of context, {rows.block:,} of blocks"
    yield f"held-out rows:    {rows.held_out_context:,} of context, {rows.held_out_block:,} of blocks"
    yield overlap_line(plan.overlap.as_json())
    if any(plan.ignored):
        yield ignored_line(*plan.ignored)
    yield f"work: {operations / _GIGA:,.1f} Gflop"
    yield f"memory: about {plan.memory:,} bytes at most"
    yield f"disk: {plan.disk:,} bytes while it runs, {plan.disk_free:,} free"
    yield "dry run: nothing was written"


def overlap_line(overlap: Mapping[str, Any]) -> str:
    """Return what held-out sequences share with calibration's, as one line."""
    line = f"held-out text:    {overlap['share']:.1%} of its {overlap['ngram']}-grams are in calibration's"
    if "closest" in overlap:
        near = overlap["closest"]
        line += f"; closest: sequence {near['sequence']} to {near['calibration']}, {near['share']:.1%}"
    return line


def ignored_line(cycles: int, rows: int) -> str:
    """Return what the traces hold beyond their tokens, as one line."""
    return f"left out of the traces: {cycles:,} recorded cycles and {rows:,} feature rows beyond the tokens"


def _step_lines(number: int, step: Step, width: int) -> Iterator[str]:
    """Yield a step's matrices; what they share stands in the first line."""
    form = {"lut4": "LUT4", "int8": "INT8"}[step.form]
    shared = f"  {step.rows:>7,}  {step.total / _GIGA:>9,.1f}  {step.memory / _GIGA:>9.2f}"
    head = f"{number:>4}"
    for name, (rows, columns) in step.matrices.items():
        yield f"{head}  {name:<{width}}  {form}  {f'{rows} x {columns}':>15}{shared}"
        head, shared = " " * 4, ""
