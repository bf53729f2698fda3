"""Examples at the end of each command's help: one table, which the reference and the tests read, too."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[str, ...]] = {
    "fetch": (
        "forgepack fetch --out checkpoint",
        "forgepack fetch --out checkpoint --dry-run",
        "forgepack fetch --adopt downloaded --out checkpoint",
    ),
    "quantize": (
        "forgepack quantize checkpoint --traces traces.npz --target target --out quant",
        "forgepack quantize checkpoint --traces traces.npz --target target --out quant --dry-run",
    ),
    "emit": ("forgepack emit quant --checkpoint checkpoint --target target --out drafter",),
    "verify": (
        "forgepack verify drafter --target target",
        "forgepack verify drafter --target target --quant quant --checkpoint checkpoint",
        "forgepack verify --bundle release --depth hash --report sarif=verify.sarif",
        "forgepack verify drafter --target sibling --attestation sibling.attestation.json",
        "forgepack verify drafter --target target --waivers forgepack-waivers.toml --baseline baseline.json",
    ),
    "bundle": ("forgepack bundle drafter --target target --out release",),
    "build": ("forgepack build", "forgepack build --locked"),
    "replay": (
        "forgepack replay drafter --target target --traces heldout.npz",
        "forgepack replay checkpoint drafter --target target --traces heldout.npz --report replay.json",
    ),
    "gate": (
        "forgepack gate replay.json --template > policy.json",
        "forgepack gate replay.json --policy policy.json --drafter drafter",
    ),
    "attest": (
        "forgepack replay drafter --target sibling --traces sibling.npz --workload held-out --report evidence.json",
        "forgepack attest drafter --target sibling --evidence evidence.json --out sibling.attestation.json",
    ),
    "diff": ("forgepack diff old/drafter new/drafter", "forgepack diff old/release new/release --json"),
    "inspect": ("forgepack inspect drafter", "forgepack inspect some.mlpackage --json"),
    "demo": ("forgepack demo", "forgepack demo --files mini"),
    "explain": ("forgepack explain HEAD003", "forgepack explain TAP"),
    "rules": ("forgepack rules", "forgepack rules HEAD TAP --format json"),
    "schema": ("forgepack schema --list", "forgepack schema report"),
    "doctor": ("forgepack doctor", "forgepack doctor --online"),
    "completion": (
        'eval "$(forgepack completion bash)"',
        'eval "$(forgepack completion zsh)"',
        "forgepack completion fish | source",
    ),
}
_LONGEST = 74  # columns of a line of help, less the indent


def with_examples(command: click.Command) -> click.Command:
    """End the command's help with its examples."""
    lines = [line for example in EXAMPLES.get(command.name or "", ()) for line in _broken(example)]
    shown = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
    if lines and shown not in (command.epilog or ""):
        command.epilog = f"{command.epilog}\n{shown}" if command.epilog else shown
    return command


def _broken(example: str) -> list[str]:
    """Break a long command line before its options, as a shell takes it."""
    lines = [""]
    for word in example.replace(" --", "\n--").split("\n"):
        if lines[-1] and len(lines[-1]) + len(word) > _LONGEST:
            lines[-1] += " \\"
            lines.append(f"    {word}")
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines
