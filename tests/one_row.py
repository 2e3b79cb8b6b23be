"""A row's processed distribution written out in full: what tests compare, and the engine never needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoding.arithmetic import Arithmetic
from decoding.processors import Context, adjust, distribute
from decoding.sampling import SamplingConfig


def process(
    row: Any, context: Context, config: SamplingConfig, arithmetic: Arithmetic[Any, Any], *, valid_size: int
) -> NDArray[np.float64]:
    """Log-probabilities by token id, -inf where dropped."""
    scores = adjust(arithmetic.widen((row,), valid_size), context, (), config, arithmetic)
    law = distribute(scores, config, arithmetic)
    kept = np.asarray(arithmetic.subtract(law.scores, law.log_total))[0]
    if law.ids is None:
        return kept
    full = np.full(valid_size, -np.inf)
    full[np.asarray(law.ids)[0]] = kept
    return full
