"""The host's side of a drafter package: what it feeds the two entry points, and the ring that it keeps.

Source: the release contract, section 4. The ring is host-owned: after a call the host writes the returned rows into
slot = position mod window. Everything that crosses is float16; features are scaled by ``feat_scale`` first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from forgepack.drafter.batch import TokenRows
from forgepack.drafter.functions import rope_tables
from forgepack.geometry import Geometry

F16 = npt.NDArray[np.float16]
HIDDEN_FROM_SIGHT = -1e4


class Session(Protocol):
    """A package that has been loaded for execution."""

    def call(self, entry: str, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Run one entry point."""
        ...


class Host:
    """Runs a package over one sequence: ``prefill`` and ``draft`` feed context rows in order of their positions."""

    def __init__(self, session: Session, geometry: Geometry, *, feat_scale: float, embedding: TokenRows) -> None:
        self._session, self._g = session, geometry
        self._feat_scale, self._table = np.float32(feat_scale), embedding.table()
        shape = (geometry.kv_heads, geometry.window, geometry.head_dim)
        self._ring = {name: np.zeros(shape, np.float16) for name in self._names("c")}
        self._held = np.full(geometry.window, -1, np.int64)

    def prefill(self, features: npt.NDArray[np.floating], start: int) -> list[dict[str, F16]]:
        """Commit context rows (n, taps x hidden) at positions start.. in calls of the prefill entry.

        Returns each call's valid new rows, ``k_new0`` and so on, (kv_heads, rows, head_dim).
        """
        rows, out = self._g.prefill_rows, []
        for at in range(0, len(features), rows):
            part = features[at : at + rows]
            results = self._session.call(self._g.prefill_entry, self._context(part, start + at, rows))
            out.append(self._commit(results, start + at, len(part)))
        return out

    def draft(self, features: npt.NDArray[np.floating], position: int, anchor: int) -> dict[str, F16]:
        """Draft the block at ``position`` from its anchor token; ``features`` are the rows just before it.

        At most ``context_rows`` of them; they are seen by the block and committed to the ring after the call.
        Returns all outputs, new rows without padding.
        """
        g, count = self._g, len(features)
        start = position - count
        cos, sin = self._tables(position, g.block)
        inputs = {
            **self._context(features, start, g.context_rows),
            "anchor": np.asarray(self._table[anchor], np.float16).reshape(1, g.hidden, 1, 1),
            "q_cos": cos,
            "q_sin": sin,
            "mask": self._mask(position, count),
            **self._ring,
        }
        results = self._session.call("draft", inputs)
        return {**results, **self._commit(results, start, count)}

    def _names(self, suffix: str) -> list[str]:
        return [f"{kind}{suffix}{layer}" for layer in range(self._g.layers) for kind in "kv"]

    def _context(self, features: npt.NDArray[np.floating], start: int, rows: int) -> dict[str, F16]:
        """Return feat (1, taps x hidden, 1, rows), zero-padded, and the tables of its positions."""
        feat = np.zeros((rows, self._g.features), np.float32)
        feat[: len(features)] = features
        feat *= self._feat_scale
        cos, sin = self._tables(start, rows)
        return {"feat": feat.T.astype(np.float16)[None, :, None, :], "ctx_cos": cos, "ctx_sin": sin}

    def _tables(self, start: int, rows: int) -> tuple[F16, F16]:
        cos, sin = rope_tables(np.arange(start, start + rows), self._g.head_dim, self._g.rope_theta)
        return cos.astype(np.float16), sin.astype(np.float16)

    def _mask(self, position: int, count: int) -> F16:
        """Return the additive mask (block, window + context_rows + block): 0 where a row is seen, else -1e4."""
        g = self._g
        new = np.where(np.arange(g.context_rows) < count, position - count + np.arange(g.context_rows), -1)
        keys = np.concatenate([self._held, new, position + np.arange(g.block)])
        queries = position + np.arange(g.block)[:, None]
        seen = (keys >= 0) & (np.abs(queries - keys) < g.window)
        return np.where(seen, 0.0, HIDDEN_FROM_SIGHT).astype(np.float16)

    def _commit(self, results: Mapping[str, npt.NDArray[Any]], start: int, count: int) -> dict[str, F16]:
        positions = np.arange(start, start + count)
        slots = positions % self._g.window
        self._held[slots] = positions
        fresh = {}
        for ring, name in zip(self._names("c"), self._names("_new"), strict=True):
            fresh[name] = np.asarray(results[name][:, :count], np.float16)
            self._ring[ring][:, slots] = fresh[name]
        return fresh
