"""The candidate selector: greedy over positions, each choice conditioned on the token chosen before.

score_c = logit_c + <predecessor[prev]·hp_i, successor[c]> over the top-k candidates of row i, then
prev = argmax: sequential, not Viterbi. Equal scores fall to the candidate with the larger logit, then the lower id.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from forgepack.drafter.weights import DrafterWeights

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

PREDECESSOR = "candidate_selector.predecessor_codebook"
SUCCESSOR = "candidate_selector.successor_codebook"


def select(candidates: tuple[F32, I64], projected: F32, anchors: I64, *, weights: DrafterWeights) -> I64:
    """Return the drafted tokens (n, B-1).

    ``candidates`` are the best logits and ids, (n, B-1, k), best first; ``projected`` is hp of rows 1..B-1,
    (n, B-1, rank); ``anchors`` (n,) are the tokens before the first draft.
    """
    values, ids = candidates
    previous, out = anchors, np.empty(values.shape[:2], np.int64)
    for place in range(values.shape[1]):
        query = weights.rows(PREDECESSOR, previous) * projected[:, place]
        scores = values[:, place] + (weights.rows(SUCCESSOR, ids[:, place]) @ query[:, :, None])[:, :, 0]
        choice = np.argmax(scores, axis=1)
        previous = np.take_along_axis(ids[:, place], choice[:, None], axis=1)[:, 0]
        out[:, place] = previous
    return out
