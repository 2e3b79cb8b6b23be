"""Thousands of random requests, speculated and plain: ids, text, log-probabilities, counts and end are the same.

SLIPSTREAM_EQUALITY_CASES=100000 draws as many cases instead, from number SLIPSTREAM_EQUALITY_FIRST on.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from equality_toys import check
from structlog.testing import capture_logs

from decoding.session import DraftStop, Mode
from decoding.stopping import FinishReason

CASES = int(os.environ.get("SLIPSTREAM_EQUALITY_CASES", "9400"))
FIRST = int(os.environ.get("SLIPSTREAM_EQUALITY_FIRST", "0"))
SHARES = 10
WANTED = (
    *(f"end: {reason}" for reason in FinishReason if reason is not FinishReason.CLOSED),
    *(f"{reason} by an accepted token" for reason in ("stop_string", "line_limit")),
    *(f"drafting stopped: {reason}" for reason in DraftStop),
    *(str(mode) for mode in Mode),
    "a stop string across tokens",
    "a stop string of many bytes",
    "an accepted id that ends the text",
    *("greedy", "top_k", "top_p", "min_p", "repetition_penalty", "logit_bias", "banned"),
    "accepted tokens",
)


@pytest.mark.parametrize("share", range(SHARES))
def test_every_request_is_as_plain_decoding_has_it(share: int) -> None:
    """Against plain decoding that stops by the words of the rules; every situation comes up in every share."""
    situations: Counter[str] = Counter()
    with capture_logs():  # drafters that break, which is a line each
        for number in range(FIRST + CASES * share // SHARES, FIRST + CASES * (share + 1) // SHARES):
            situations += check(number)
    assert not [wanted for wanted in WANTED if not situations[wanted]]
