"""The table of ``forgepack diff`` against the verifier: a spoiled pair is refused by a rule that its diff names."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgepack.release.diff.compare import diff_paths
from forgepack.verify.rule import find_rule
from tests.verify import test_contract, test_formats, test_package, test_taps, test_tokenizer_rules
from tests.verify.running import explain_all, roots, verified
from tests.verify.sabotage import Case

PARTS = ("drafter", "target", "quant", "checkpoint")
CASES = [
    (module.__name__.rsplit(".", maxsplit=1)[-1], case)
    for module in (test_contract, test_formats, test_package, test_taps, test_tokenizer_rules)
    for case in module.CASES
]
# Faults that lie in a name's form, or in links: told by rules about names, not about a place in a file.
EXCEPT = ("PATH",)


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[f"{name}: {case.name}" for name, case in CASES])
def test_what_a_diff_names_is_what_refuses(base: Path, pair: Path, case: Case) -> None:
    """Of the root causes at least one is among the rules of the differences, and every rule named exists."""
    case.change(pair)
    found = roots(verified(pair, case.depth, sources=case.sources))
    named: set[str] = set()
    for part in PARTS:
        if (pair / part).exists():
            named |= {rule for one in diff_paths(base / part, pair / part).differences for rule in one.rules}
    assert all(find_rule(rule).id == rule for rule in named)
    judged = [ident for ident in found if not ident.startswith(EXCEPT)]
    assert not judged or named & set(judged), (judged, sorted(named), explain_all(verified(pair, case.depth)))
