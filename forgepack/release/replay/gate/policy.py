"""A release rule as data: which workload, which drafter, how much acceptance and agreement; JSON or TOML.

A policy that names no workload is refused: acceptance on an unnamed one says nothing (an acceptance of 33% on mixed
prompts and of 91% on one coding prompt are the same drafter's).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from forgepack.artifacts.settings_file import SettingsFile, demand_form, read_settings
from forgepack.document import DocumentKind
from forgepack.errors import UsageError


def _from_version_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a policy of version 1 in today's form: it could not state what today's may."""
    return raw


KIND = DocumentKind(
    name="forgepack.gate_policy",
    title="policy of a gate",
    remake="forgepack gate REPORT --template prints a policy of this version",
    code="gate-policy",
    version=2,
    upgrade=_from_version_1,
    form="gate_policy",
)
SPEED_RATIO = 5.0
LIVE_ACCEPTANCE = {"gpu": 0.5, "ane": 0.7}
By = Literal["mean", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRule:
    """What the report must be about; ``drafter_sha256`` is None when the command line names the drafter.

    ``held_out`` demands that no sequence calibrated the drafter; a workload of such a name claims it, too.
    """

    name: str
    traces_sha256: str
    target_sha256: str
    drafter_sha256: str | None
    held_out: bool

    @property
    def claims_held_out(self) -> bool:
        """Whether the policy or the workload's name says that its sequences were held out."""
        return self.held_out or "heldout" in re.sub(r"[\W_]", "", self.name).casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRule:
    """The least that must have been measured."""

    sequences: int
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRule:
    """Least mean of accepted drafts per block; ``at_least`` holds the least P(m >= 1), P(m >= 2) and so on.

    ``as_recorded`` demands that the mean is within the 99% interval around the traces' recorded one.
    """

    mean: float
    by: By
    at_least: tuple[float, ...]
    as_recorded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementRule:
    """Least share of blocks drafted as the reference drafts them."""

    mean: float
    by: By
    reference_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRule:
    """No significant drop against a baseline; ``drops`` holds for each quantity the most that it may drop at all."""

    report_sha256: str | None
    drafter_sha256: str | None
    drops: dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoConstraintRule:
    """Speed ratio and live acceptance; ``live_acceptance`` None means the unit's own minimum."""

    required: bool
    speed_ratio: float
    live_acceptance: float | None

    def least_live(self, unit: str) -> float:
        """Return the least live acceptance where the target verifies on ``unit``."""
        return LIVE_ACCEPTANCE[unit] if self.live_acceptance is None else self.live_acceptance


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A release rule; ``sha256`` is that of its file."""

    path: Path
    sha256: str
    name: str | None
    workload: WorkloadRule
    sample: SampleRule
    acceptance: AcceptanceRule | None
    agreement: AgreementRule | None
    baseline: BaselineRule | None
    two_constraint: TwoConstraintRule


def read_policy(path: Path) -> Policy:
    """Read a policy; UsageError for everything that is wrong with it, for it is the user's configuration."""
    return _policy(read_settings(path, "policy", hint="forgepack gate REPORT --template prints one"))


def _policy(file: SettingsFile) -> Policy:
    path, raw = file.path, file.raw
    # The schema refuses both of these as well; they are answered first, in words of their own.
    workload = raw.get("workload")
    if not isinstance(workload, dict) or not str(workload.get("name") or "").strip():
        raise UsageError(
            "a gate needs a named workload",
            where=f"{path}: workload.name",
            expected="the name that forgepack replay --workload gave",
            found=repr(workload)[:80],
            hint="forgepack gate REPORT --template prints a policy that is bound to a report",
        )
    if not {"acceptance", "agreement", "baseline"} & set(raw):
        hint = "add acceptance, agreement or baseline"
        raise UsageError("the policy demands nothing, so anything would pass", where=str(path), hint=hint)
    raw = demand_form(file, KIND)
    two = raw.get("two_constraint", {})
    return Policy(
        path=path,
        sha256=file.sha256,
        name=raw.get("name"),
        workload=WorkloadRule(**{"drafter_sha256": None, "held_out": False, **workload}),
        sample=SampleRule(**{"sequences": 1, "blocks": 1, **raw.get("sample", {})}),
        acceptance=_acceptance(raw.get("acceptance")),
        agreement=AgreementRule(**{"by": "mean", **raw["agreement"]}) if "agreement" in raw else None,
        baseline=_baseline(raw.get("baseline")),
        two_constraint=TwoConstraintRule(
            required=two.get("required", False),
            speed_ratio=two.get("speed_ratio", SPEED_RATIO),
            live_acceptance=two.get("live_acceptance"),
        ),
    )


def _acceptance(raw: dict[str, Any] | None) -> AcceptanceRule | None:
    if raw is None:
        return None
    return AcceptanceRule(
        mean=raw["mean"],
        by=raw.get("by", "mean"),
        at_least=tuple(raw.get("at_least", ())),
        as_recorded=raw.get("as_recorded", False),
    )


def _baseline(raw: dict[str, Any] | None) -> BaselineRule | None:
    if raw is None:
        return None
    return BaselineRule(
        report_sha256=raw.get("report_sha256"),
        drafter_sha256=raw.get("drafter_sha256"),
        drops={name: raw[name].get("most") for name in ("acceptance", "agreement") if name in raw},
    )
