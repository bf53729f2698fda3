"""The recipe that a quantization states, compared with the one that a run under the profile in use writes.

The quantizing side writes the report, and its digest is bound as it stands: only its content can show that it is
of another recipe. The whole of it is compared, so that no value escapes the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from forgepack.artifacts.quant_report import Method
from forgepack.facts.fact import differences
from forgepack.profile import Profile

# Checked by lines of their own, with their causes: SRC012, NUM007, SRC020.
_ELSEWHERE = ("variant", "mask_scale")


def recipe_differences(profile: Profile, method: Any, stated: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, expected, found) of every leaf of a recipe but variant and mask scale that is not the method's.

    A method that is not known has its own rule: its recipe is compared with GPTQ's.
    """
    from forgepack.quantize.recipe import Options, recipe_json

    known: Method = "rtn" if method == "rtn" else "gptq"
    expected = _without(recipe_json(Options(method=known), profile))
    yield from differences(expected, _without(stated if isinstance(stated, Mapping) else {}), "recipe")


def _without(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in recipe.items() if key not in _ELSEWHERE}
