"""What a Python program may call: the functions below, their options, their results, and the errors that they raise.

Everything else in this package is private: it may change with any release. Each function does what the command of its
name does, under the same rules: no check is weaker than on the command line, and what an owner accepts shows in the
report. A path is text or a ``Path``, relative to the working folder. A target is its release root, or ``TargetParts``
where parts of it are elsewhere. ``profile`` is the name of one that ships, or a path that ends in .json.

No function prints, exits the process, or reads FORGEPACK_* variables or a configuration file; of the hub,
``huggingface_hub`` reads its own variables. An expected failure is a ``ForgepackError``, whose ``what``, ``where``,
``expected``, ``found`` and ``hint`` say what is wrong and what to do, and whose ``exit_code`` is the command's. A
fault in the content of what is verified is a finding of a report, not an error.

Importing this module is cheap: what takes long to import is imported by the calls that need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from forgepack.calls.checking import attest, verify, verify_bundle, verify_published
from forgepack.calls.looking import diff, inspect, render
from forgepack.calls.making import adopt, emit, fetch, quantize
from forgepack.calls.measuring import gate, policy_for, replay
from forgepack.calls.releasing import build, bundle
from forgepack.calls.values import Progress
from forgepack.errors import (
    CorruptError,
    ForgepackError,
    HubError,
    IdentityError,
    InputError,
    InternalError,
    LimitError,
    MissingError,
    NothingToVerifyError,
    NumericsError,
    OutputError,
    PlatformError,
    UnreadableError,
    UsageError,
)

if TYPE_CHECKING:
    from forgepack.artifacts.target_parts import TargetParts
    from forgepack.emit.package import EmitResult
    from forgepack.hub.report import FetchReport, FileReport
    from forgepack.quantize.recipe import Options as QuantizeOptions
    from forgepack.quantize.run import QuantizeResult
    from forgepack.release.attest.make import AttestResult
    from forgepack.release.bundle.make import BundleResult
    from forgepack.release.diff.compare import Diff
    from forgepack.release.diff.values import Amount, Difference
    from forgepack.release.inspect.inspection import Inspection
    from forgepack.release.inspect.notes import Fault
    from forgepack.release.recipe.build import BuildResult
    from forgepack.release.recipe.request import BuildRequest
    from forgepack.release.replay.gate.checks import GateCheck
    from forgepack.release.replay.gate.judge import GateResult
    from forgepack.release.replay.reading import DrafterResult, Quantity, ReplayReport
    from forgepack.release.verification.run import Acceptance
    from forgepack.verify.findings.report import Accepted, Check, Chosen, Depth, Failure, Finding, Identity, Report

FUNCTIONS = (
    *("fetch", "adopt", "quantize", "emit", "verify", "bundle", "verify_bundle", "verify_published", "build"),
    *("replay", "policy_for", "gate", "attest", "diff", "inspect", "render"),
)
# Where the types are that are imported when they are first asked for: their modules import NumPy.
TYPES = {
    "Acceptance": "forgepack.release.verification.run",
    "Accepted": "forgepack.verify.findings.report",
    "Amount": "forgepack.release.diff.values",
    "AttestResult": "forgepack.release.attest.make",
    "BuildRequest": "forgepack.release.recipe.request",
    "BuildResult": "forgepack.release.recipe.build",
    "BundleResult": "forgepack.release.bundle.make",
    "Check": "forgepack.verify.findings.report",
    "Chosen": "forgepack.verify.findings.report",
    "Depth": "forgepack.verify.findings.report",
    "Diff": "forgepack.release.diff.compare",
    "Difference": "forgepack.release.diff.values",
    "DrafterResult": "forgepack.release.replay.reading",
    "EmitResult": "forgepack.emit.package",
    "Failure": "forgepack.verify.findings.report",
    "Fault": "forgepack.release.inspect.notes",
    "FetchReport": "forgepack.hub.report",
    "FileReport": "forgepack.hub.report",
    "Finding": "forgepack.verify.findings.report",
    "GateCheck": "forgepack.release.replay.gate.checks",
    "GateResult": "forgepack.release.replay.gate.judge",
    "Identity": "forgepack.verify.findings.report",
    "Inspection": "forgepack.release.inspect.inspection",
    "QuantizeOptions": "forgepack.quantize.recipe: Options",
    "QuantizeResult": "forgepack.quantize.run",
    "Quantity": "forgepack.release.replay.reading",
    "ReplayReport": "forgepack.release.replay.reading",
    "Report": "forgepack.verify.findings.report",
    "TargetParts": "forgepack.artifacts.target_parts",
}

__all__ = [
    "Acceptance",
    "Accepted",
    "Amount",
    "AttestResult",
    "BuildRequest",
    "BuildResult",
    "BundleResult",
    "Check",
    "Chosen",
    "CorruptError",
    "Depth",
    "Diff",
    "Difference",
    "DrafterResult",
    "EmitResult",
    "Failure",
    "Fault",
    "FetchReport",
    "FileReport",
    "Finding",
    "ForgepackError",
    "GateCheck",
    "GateResult",
    "HubError",
    "Identity",
    "IdentityError",
    "InputError",
    "Inspection",
    "InternalError",
    "LimitError",
    "MissingError",
    "NothingToVerifyError",
    "NumericsError",
    "OutputError",
    "PlatformError",
    "Progress",
    "Quantity",
    "QuantizeOptions",
    "QuantizeResult",
    "ReplayReport",
    "Report",
    "TargetParts",
    "UnreadableError",
    "UsageError",
    "adopt",
    "attest",
    "build",
    "bundle",
    "diff",
    "emit",
    "fetch",
    "gate",
    "inspect",
    "policy_for",
    "quantize",
    "render",
    "replay",
    "verify",
    "verify_bundle",
    "verify_published",
]


if not TYPE_CHECKING:  # or every misspelt name would be typed as something

    def __getattr__(name: str) -> Any:
        """Import a type when it is first asked for."""
        if name not in TYPES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, other = TYPES[name].partition(": ")
        found = getattr(import_module(module), other or name)
        globals()[name] = found
        return found
