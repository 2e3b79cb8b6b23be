"""The requests that a case makes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from audits import case, sources
from tiny_models import save_tokenizer

from drafts.vocabulary import Vocabulary
from evaluation.audit_cases import Reuse
from evaluation.audit_prompts import Prompts

LIMIT = 70


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return Vocabulary.load(folder)


@pytest.fixture(scope="module")
def prompts(vocabulary: Vocabulary) -> Prompts:
    return Prompts(sources(), vocabulary, prompt_tokens=LIMIT)


def test_a_prompt_is_what_stands_before_the_cut(prompts: Prompts, vocabulary: Vocabulary) -> None:
    asked = prompts.request(case(), drafter="oracle-7")
    assert len(asked.prompt) == 64
    text = vocabulary.decode(asked.prompt[2:])
    assert sources()["python"][0].text[:600].endswith(text)
    assert asked.drafter == "oracle-7"
    assert replace(asked, drafter="") == prompts.request(case(), drafter="")


def test_no_two_cases_begin_alike(prompts: Prompts) -> None:
    heads = [prompts.request(case(number=number), drafter="").prompt[:2] for number in range(2000)]
    assert len(set(heads)) == 2000


def test_nothing_is_asked_before_a_case_that_reuses_nothing(prompts: Prompts) -> None:
    assert prompts.asked_before(case(reuse=Reuse.NOTHING)) is None


def test_what_is_asked_before_shares_a_beginning(prompts: Prompts, vocabulary: Vocabulary) -> None:
    prompt = prompts.request(case(), drafter="").prompt
    before = {
        reuse: prompts.asked_before(case(reuse=reuse, reuse_tokens=5))
        for reuse in (Reuse.SAME, Reuse.SHORTER, Reuse.LONGER, Reuse.FORKED)
    }
    asked = {reuse: request.prompt for reuse, request in before.items() if request}
    assert asked[Reuse.SAME] == prompt
    assert asked[Reuse.SHORTER] == prompt[:-5]
    assert asked[Reuse.FORKED][:59] == prompt[:59]
    assert asked[Reuse.FORKED][59] != prompt[59]
    assert asked[Reuse.LONGER][:64] == prompt
    assert len(asked[Reuse.LONGER]) == 69
    assert sources()["python"][0].text[600:].startswith(vocabulary.decode(asked[Reuse.LONGER][64:]))


def test_what_is_asked_before_keeps_the_limit_and_is_never_empty(prompts: Prompts) -> None:
    longer = prompts.asked_before(case(reuse=Reuse.LONGER, reuse_tokens=80))
    shorter = prompts.asked_before(case(reuse=Reuse.SHORTER, reuse_tokens=80))
    assert longer
    assert shorter
    assert len(longer.prompt) == LIMIT
    assert len(shorter.prompt) == 2
