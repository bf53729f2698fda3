"""The benchmark's outcome as text: ceilings, phases with what they achieve of them, commands with time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

# The ceiling that bounds a phase: its floating-point kind on all workers.
CEILING = {
    "hessians": "sgemm",
    "forward": "sgemm",
    "gptq": "sgemm",
    "calibration_errors": "sgemm",
    "held_out": "sgemm",
    "int8_errors": "sgemm",
    "factorization": "dgemm",
}


def render(outcome: Json) -> str:
    """Return the whole table."""
    parts = [_ceilings(outcome)]
    results = outcome["results"]
    if "quantize" in results:
        parts.append(_phases(outcome, results["quantize"]))
    parts.append(_commands(outcome))
    if "startup" in results:
        parts.append(_startup(results["startup"]))
    return "\n\n".join("\n".join(part) for part in parts)


def phase_ratios(outcome: Json) -> dict[str, Json]:
    """Return, by phase with counted operations, its rate and the share of the ceiling that it attains.

    ``cpu`` compares rates a CPU second with one thread's ceiling, ``wall`` rates a wall second with all workers'.
    The phase ``all`` sums up: attainable seconds of all counted operations over the whole command's.
    """
    quantize, workers = outcome["results"]["quantize"], outcome["machine"]["workers"]
    out: dict[str, Json] = {}
    attainable = {"cpu": 0.0, "wall": 0.0}
    for phase, operations in quantize["operations"].items():
        known = quantize["phases"].get(phase)
        if known is None:
            continue
        one, every = (outcome["ceilings"][f"{CEILING[phase]}_{n}"] for n in (1, workers))
        rates = {"cpu": operations / max(known["cpu"], 1e-9), "wall": operations / max(known["seconds"], 1e-9)}
        out[phase] = {"operations": operations, **known, "rate": rates["wall"]}
        out[phase]["of_ceiling"] = {"cpu": rates["cpu"] / one["cpu"], "wall": rates["wall"] / every["wall"]}
        attainable["cpu"] += operations / one["cpu"]
        attainable["wall"] += operations / every["wall"]
    total = {"cpu": quantize["user"] + quantize["system"], "wall": quantize["wall"]}
    out["all"] = {
        "operations": sum(quantize["operations"].values()),
        "seconds": total["wall"],
        "cpu": total["cpu"],
        "of_ceiling": {kind: attainable[kind] / total[kind] for kind in total},
    }
    return out


def _ceilings(outcome: Json) -> Iterator[str]:
    yield f"ceilings ({outcome['scale']}, {outcome['machine']['cpus']} CPUs)   G/s wall   G/s a CPU second"
    for name, ceiling in sorted(outcome["ceilings"].items()):
        unit = f"G{ceiling['unit']}"
        yield f"  {name:<18} {unit:<6} {ceiling['wall'] / 1e9:>15.2f} {ceiling['cpu'] / 1e9:>18.2f}"


def _phases(outcome: Json, quantize: Json) -> Iterator[str]:
    ratios = phase_ratios(outcome)
    yield "quantize, by phase       seconds   CPU s   operations   of ceiling: CPU    wall   peak anonymous"
    for name, phase in sorted(quantize["phases"].items(), key=lambda item: -item[1]["seconds"]):
        yield _phase(name, {**phase, **ratios.get(name, {})})
    yield _phase("all", ratios["all"])


def _phase(name: str, phase: Json) -> str:
    line = f"  {name:<20} {phase['seconds']:>10.1f} {phase['cpu']:>8.1f}"
    if "of_ceiling" in phase:
        of = phase["of_ceiling"]
        line += f" {phase['operations']:>12.2e} {of['cpu']:>17.0%} {of['wall']:>7.0%}"
    else:
        line += " " * 38
    anonymous = phase.get("anonymous")
    return line + (f" {anonymous / 1e9:>13.2f} GB" if anonymous else "")


def _commands(outcome: Json) -> Iterator[str]:
    results = outcome["results"]
    rows = {name: results[name] for name in ("quantize", "emit") if name in results}
    rows.update({f"verify {depth}": usage for depth, usage in results.get("verify", {}).items()})
    yield "commands            wall s   user s   sys s   resident GB  anonymous GB   hashing the bytes"
    for name, usage in rows.items():
        memory = [usage[key] for key in ("resident", "anonymous")]
        sizes = " ".join(f"{'-' if m is None else f'{m / 1e9:.3f}':>13}" for m in memory)
        line = f"  {name:<15} {usage['wall']:>8.2f} {usage['user']:>8.2f} {usage['system']:>7.2f} {sizes}"
        yield line + _hashing(outcome, usage)


def _hashing(outcome: Json, usage: Json) -> str:
    """Compare with the time that hashing (or, for emit, hashing and writing) the same bytes takes."""
    if "bytes" not in usage:
        return ""
    ceilings, read = outcome["ceilings"], usage["bytes"]
    fastest = max(c["wall"] for name, c in ceilings.items() if name.startswith("sha256"))
    if isinstance(read, int):
        seconds = read / fastest + read / ceilings["disk_write"]["wall"]
        beside = usage["wall"] - usage["proof"]
        return (
            f"   {seconds:.2f} s with writing, x{usage['wall'] / seconds:.2f};"
            f" beside proving the inputs ({usage['proof']:.2f} s) x{beside / seconds:.2f}"
        )
    computed = (read["package"] + read["target"]) / fastest
    return (
        f"   package and target by hashlib {usage['hashed']:.2f} s, x{usage['wall'] / usage['hashed']:.2f};"
        f" from memory {computed:.2f} s, x{usage['wall'] / computed:.2f}"
    )


def _startup(startup: Json) -> Iterator[str]:
    yield "start-up          median ms   best ms   CPU ms"
    for name, times in startup.items():
        figures = (times[key] * 1e3 for key in ("median", "best", "cpu"))
        yield f"  {name:<15} " + " ".join(f"{value:>9.0f}" for value in figures)
