"""The server's own drafters in a run: guarded, and no longer than pays."""

from __future__ import annotations

from drafter_records import record, verdict_on
from structlog.testing import capture_logs

from decoding.draft_length import DraftLength
from decoding.drafting import Draft
from decoding.errors import Mismatch
from decoding.verdict import Verdict
from target_server.guarded_drafts import GuardedDrafts


class Drafting:
    """Proposes `limit` tokens with the confidences that it is given."""

    def __init__(self, *confidences: float) -> None:
        self.confidences = confidences
        self.extended: list[int] = []
        self.limits: list[int] = []

    def extend(self, tokens: tuple[int, ...]) -> None:
        self.extended += tokens

    def propose(self, limit: int) -> Draft:
        self.limits.append(limit)
        stated = self.confidences[:limit]
        return Draft(position=3, tokens=(9,) * len(stated), confidences=stated, sampling_fingerprint="")


def sound(_draft: Draft) -> None:
    """Any draft can be verified."""


def steps(drafted: int, accepted: int, *, us: int) -> Verdict:
    return verdict_on(drafted, accepted, verify_us=us)


def test_without_a_chooser_all_that_is_proposed_is_drafted() -> None:
    drafts = GuardedDrafts(Drafting(0.9, 0.1, 0.1), request_id="r", check=sound)
    assert len(drafts.propose(3, 7).tokens) == 3


def test_a_chooser_cuts_what_its_rows_do_not_earn_and_learns() -> None:
    drafting = Drafting(0.95, 0.05, 0.05)
    shared = record(steps=((1, 50_000), (8, 190_000)))
    drafts = GuardedDrafts(drafting, request_id="r", check=sound, length=DraftLength(shared), clock=lambda: 1.0)
    assert drafts.propose(3, 7).tokens == (9,)
    drafts.judged(steps(1, 1, us=70_000))
    assert drafting.extended == [1, 1]
    assert shared.earned.part == 2
    assert shared.timings.step_us(2) == 70_000
    assert shared.timings.round_trip_us == 0


def test_the_drafting_is_timed_reading_included() -> None:
    ticks = iter(range(100))
    shared = record()
    drafts = GuardedDrafts(
        Drafting(0.9), request_id="r", check=sound, length=DraftLength(shared), clock=lambda: next(ticks) / 1_000_000
    )
    drafts.propose(3, 7)
    drafts.judged(steps(1, 1, us=0))
    drafts.propose(3, 7)
    assert shared.guess_us == (1 + 2) / 4


def test_a_chooser_does_not_make_up_for_a_drafter_that_breaks() -> None:
    class Broken(Drafting):
        def propose(self, limit: int) -> Draft:
            raise RuntimeError("secret")

    drafts = GuardedDrafts(Broken(), request_id="r", check=sound, length=DraftLength(record()))
    with capture_logs() as log:
        assert drafts.propose(3, 7).tokens == ()
        drafts.judged(steps(0, 0, us=50_000))
        assert drafts.propose(3, 7).tokens == ()
    assert len(log) == 1
    assert "secret" not in repr(log)


def test_a_draft_that_can_not_be_verified_drops_its_drafter_and_not_the_request() -> None:
    def refuse(_draft: Draft) -> None:
        raise Mismatch("sampling fingerprint", expected="a", got="b", remedy="")

    drafting = Drafting(0.9)
    drafts = GuardedDrafts(drafting, request_id="r", check=refuse)
    with capture_logs() as log:
        assert drafts.propose(3, 7).tokens == ()
        assert drafts.propose(3, 7).tokens == ()
    assert (len(log), len(drafting.limits)) == (1, 1)
