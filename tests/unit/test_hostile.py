"""The drafter made bad on purpose."""

from __future__ import annotations

from itertools import count

from decoding.drafting import Draft, DraftingRequest
from decoding.sampling import SamplingConfig
from evaluation.hostile import HostileDrafter, Switch

REQUEST = DraftingRequest(prompt=(5, 6, 7), language="python", sampling=SamplingConfig())


class Honest:
    name = "honest"

    def open(self, request: DraftingRequest) -> Honest:
        return self

    def extend(self, tokens: object) -> None:
        pass

    def propose(self, limit: int) -> Draft:
        return Draft(position=3, tokens=(1,), sampling_fingerprint="")


def test_it_is_the_real_drafter_until_it_is_switched() -> None:
    switch = Switch()
    drafter = HostileDrafter(Honest(), switch, count(100).__next__)
    assert drafter.name == "honest"
    assert drafter.open(REQUEST).propose(4).tokens == (1,)
    switch.hostile = True
    noisy = drafter.open(REQUEST)
    switch.hostile = False
    assert drafter.open(REQUEST).propose(4).tokens == (1,)
    assert noisy.propose(2).tokens == (100, 101)  # a request keeps the drafter that it began with


def test_noise_is_a_valid_draft_of_full_length_at_the_right_position() -> None:
    switch = Switch()
    switch.hostile = True
    drafting = HostileDrafter(Honest(), switch, count(0).__next__).open(REQUEST)
    drafting.extend((8, 9))
    draft = drafting.propose(3)
    assert (draft.position, draft.tokens) == (5, (0, 1, 2))
    assert draft.sources == ("noise",) * 3
