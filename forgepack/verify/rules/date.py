"""CTR, dates: what an asset says of its creation is a date, though nothing is bound by it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from forgepack.artifacts.aimodel import DATE_KEY, METADATA_FILE
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.pair import Pair
from forgepack.verify.policy.rule import rule

_FORM = re.compile(r"[0-9]{8}T[0-9]{6}Z")


@rule(
    "CTR072",
    title="each asset's creation date is a date",
    why="Core AI writes the date whenever it saves an asset, so another text there was written by something else",
    remedy="save the asset with Core AI, or emit the package again",
    severity="warning",
    needs=("asset",),
    since=2,
)
def dates_are_dates(pair: Pair) -> Iterator[Finding]:
    """Where the package or an asset of the target states a creationDate, it is a day and time in UTC."""
    assets = [pair.asset.value, *(pair.packages.value.values() if pair.packages.available else ())]
    for asset in assets:
        stated = asset.metadata.get(DATE_KEY)
        if DATE_KEY in asset.metadata and not _is_date(stated):
            where = pair.place(asset.root / METADATA_FILE, DATE_KEY)
            yield differing("creation date", where, expected="YYYYMMDDThhmmssZ", found=stated)


def _is_date(stated: object) -> bool:
    if not isinstance(stated, str) or _FORM.fullmatch(stated) is None:
        return False
    try:
        datetime.datetime.strptime(stated, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    except ValueError:
        return False
    return True
