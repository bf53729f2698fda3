"""Where a build may write: checked for all its steps before the first of them, and the room that they take."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

from forgepack.artifacts.tree import walk
from forgepack.disk.places import Inputs, check_folder, check_ground, check_inputs, lies_in
from forgepack.disk.space import SPARE, closest_folder, demand_space, free_bytes, used_bytes
from forgepack.emit.package import plan_package
from forgepack.errors import UsageError
from forgepack.quantize.plan import disk_bytes
from forgepack.release.recipe.inputs import BuildRecipe


def check_places(recipe: BuildRecipe, *, force: bool, ours: bool) -> None:
    """Raise UsageError where a step would be refused its place, OutputError where the disk is too small for them.

    An output folder that an earlier build made is ``ours``; with ``force`` any other that this tool made is replaced,
    if nobody changed it since. The work folder is not replaced, so it may hold inputs, but none of the folders that
    steps make in it may.
    """
    read = _inputs(recipe)
    for place in (recipe.work, recipe.checkpoint, recipe.output):
        check_ground(place)
    check_inputs(recipe.work, read, holding=False)
    check_inputs(recipe.output, read)
    _check_apart(recipe)
    for place in (recipe.quant, recipe.drafter):
        if place.parent.is_dir():
            check_folder(place, force=True, inputs={**read, "the checkpoint": recipe.checkpoint})
    if recipe.output.parent.is_dir():
        check_folder(recipe.output, force=force or ours, inputs=read, exact=not ours)
    _check_space(recipe)


def _check_apart(recipe: BuildRecipe) -> None:
    """Raise UsageError where one step's folder is inside another's: replacing that one would take it along."""
    made = [recipe.checkpoint, recipe.quant, recipe.drafter, recipe.reports]
    pairs = [*permutations([*made, recipe.output], 2), (recipe.work, recipe.output)]
    for inner, outer in pairs:
        if lies_in(inner, outer):
            raise UsageError(
                "one folder of a build is inside another that the build replaces",
                where=str(inner),
                found=f"inside {outer}",
                hint="set checkpoint, work and output of the recipe to folders outside each other",
                code="place",
            )


def _inputs(recipe: BuildRecipe) -> Inputs:
    return {
        "the traces": recipe.traces,
        "the held-out traces": recipe.held_out,
        "the target": recipe.root,
        "the target's model": recipe.target.model,
        "the target's build": recipe.target.build,
        "the target's export": recipe.target.export,
        "the documents": recipe.documents,
    }


def _check_space(recipe: BuildRecipe) -> None:
    """Demand room for every output that is not there yet; a step whose output is there asks for itself."""
    needed: dict[Path, int] = {}
    for out, size in _sizes(recipe):
        if not out.exists():
            folder = closest_folder(out)
            needed[folder] = needed.get(folder, 0) + size
    by_disk: dict[int, tuple[Path, int]] = {}
    for folder, size in needed.items():
        first, before = by_disk.setdefault(folder.stat().st_dev, (folder, 0))
        by_disk[folder.stat().st_dev] = (first, before + size)
    for folder, size in by_disk.values():
        demand_space(size, free_bytes(folder) + used_bytes(recipe.work), recipe.output)


def _sizes(recipe: BuildRecipe) -> Iterator[tuple[Path, int]]:
    package = plan_package(recipe.profile).disk_bytes
    yield recipe.quant, disk_bytes(recipe.profile)
    yield recipe.drafter, package
    paths = [path for path in (recipe.target.model, recipe.target.build, recipe.target.export) if path is not None]
    yield recipe.output, package + SPARE + sum(entry.size for path in paths for entry in walk(path))
