"""The audit's drafters, and the desk where a target fetches them."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random

import pytest
from audits import case, output
from tiny_models import save_tokenizer

from decoding.drafting import DraftingRequest
from decoding.sampling import SamplingConfig
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from drafts.vocabulary import Vocabulary
from evaluation.audit_drafting import Desk, Drafters, OracleDrafting, ShortDrafting

REQUEST = DraftingRequest(prompt=(5, 6, 7), language="python", sampling=SamplingConfig())
KNOWN = tuple(range(100, 120))


@pytest.fixture(scope="module")
def drafters(tmp_path_factory: pytest.TempPathFactory) -> Drafters:
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    vocabulary = Vocabulary.load(folder)
    return Drafters(DrafterRegistry(DraftSettings(tables=Path(folder)), vocabulary), vocabulary)


def oracle(right: float, *, seed: int = 0) -> OracleDrafting:
    return OracleDrafting(KNOWN, start=3, right=right, noise=count(900).__next__, draw=Random(seed))  # noqa: S311


def test_the_oracle_drafts_what_it_was_told_from_wherever_the_output_is() -> None:
    drafting = oracle(1.0)
    drafting.extend(KNOWN[:4])
    drafts = [drafting.propose(7) for _ in range(40)]
    assert {draft.position for draft in drafts} == {7}
    assert {len(draft.tokens) for draft in drafts} == set(range(1, 8))
    assert all(draft.tokens == KNOWN[4 : 4 + len(draft.tokens)] for draft in drafts)
    drafting.extend(KNOWN[4:])
    assert drafting.propose(7).tokens == ()


def test_the_oracle_errs_as_often_as_it_should() -> None:
    drafted = [token for seed in range(500) for token in oracle(0.8, seed=seed).propose(7).tokens]
    assert 0.7 < sum(token in KNOWN for token in drafted) / len(drafted) < 0.9
    assert not set(oracle(0.0).propose(7).tokens) & set(KNOWN)


def test_drafts_are_no_longer_than_the_case_says() -> None:
    assert len(ShortDrafting(oracle(1.0), 2).propose(1).tokens) == 1
    assert max(len(ShortDrafting(drafting, 2).propose(7).tokens) for drafting in [oracle(1.0)] * 20) == 2


@pytest.mark.parametrize("name", ["none", "lookup", "ngram", "noise", "oracle"])
def test_every_drafter_drafts_at_the_right_place(drafters: Drafters, name: str) -> None:
    asked = case(drafter=name, right=1.0, draft_tokens=3)
    drafting = drafters.opener(asked, output(tokens=KNOWN))(REQUEST)
    drafting.extend((100, 101))
    draft = drafting.propose(7)
    assert draft.position == 5
    assert len(draft.tokens) <= 3
    if name in ("noise", "oracle"):
        assert draft.tokens
    if name == "none":
        assert not draft.tokens


def test_a_language_without_a_table_gets_lookup_and_says_so(drafters: Drafters) -> None:
    assert drafters.name(case(drafter="ngram")) == "lookup"
    assert drafters.name(case(drafter="noise")) == "noise"


def test_the_desk_hands_out_what_was_left_until_it_is_taken_back(drafters: Drafters) -> None:
    desk = Desk()
    desk.leave("oracle-7", drafters.opener(case(right=1.0), output(tokens=KNOWN)))
    first, second = (desk("python", "oracle-7", REQUEST) for _ in range(2))
    assert first is not None
    assert second is not None
    first.extend(KNOWN)
    assert first.propose(4).position != second.propose(4).position
    assert desk("python", "oracle-8", REQUEST) is None
    desk.take_back("oracle-7")
    assert desk("python", "oracle-7", REQUEST) is None
