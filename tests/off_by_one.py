"""The error that the audit must catch, planted from outside; run as a script, the command line with it.

Tokens that follow drafted ones get the noise of the position after theirs: plain decoding is right, drafts go wrong.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import Any

import pytest

import decoding.acceptance
from decoding.drafting import Draft
from decoding.sequence import Sequence
from decoding.verdict import Verdict


def plant(patch: pytest.MonkeyPatch) -> None:
    judge, gumbel = Sequence.judge, decoding.acceptance.gumbel
    start = 0

    def noting_where(sequence: Sequence[Any], draft: Draft, rows: Any) -> Verdict:
        nonlocal start
        start = sequence.position
        return judge(sequence, draft, rows)

    def shifted(seed: int, positions: Many[int], *others: Any) -> Any:
        return gumbel(seed, [position + (position > start) for position in positions], *others)

    patch.setattr(Sequence, "judge", noting_where)
    patch.setattr(decoding.acceptance, "gumbel", shifted)


if __name__ == "__main__":
    from cli.main import main

    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        main()
