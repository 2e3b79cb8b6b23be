"""The cases that the audit draws."""

from __future__ import annotations

from itertools import chain

from audits import BOUNDS, sources

from decoding.session import Mode
from evaluation.audit_cases import DRAFTERS, MOST_SESSIONS, TEMPERATURES, Case, Group, Reuse, draw_groups
from evaluation.audit_sources import LANGUAGES


def drawn(count: int, *, seed: int = 0, files: int = 2) -> tuple[Group, ...]:
    return draw_groups(sources(files=files), count=count, seed=seed, bounds=BOUNDS)


def cases(count: int, **how: int) -> list[Case]:
    return list(chain.from_iterable(drawn(count, **how)))


def test_a_seed_fixes_the_cases_and_fewer_are_the_first_of_more() -> None:
    assert drawn(200) == drawn(200)
    assert cases(60) == cases(200)[:60]
    assert cases(60) != cases(60, seed=1)
    assert [case.number for case in cases(200)] == list(range(200))


def test_everything_is_tried() -> None:
    many = cases(400)
    assert {case.language for case in many} == set(LANGUAGES)
    assert {case.sampling.temperature for case in many} == set(TEMPERATURES)
    assert {case.drafter for case in many} == set(DRAFTERS)
    assert {case.draft_tokens for case in many} == set(range(1, BOUNDS.block_rows))
    assert {case.mode for case in many} == {Mode.EDGE, Mode.SERVER}
    assert {case.reuse for case in many} == set(Reuse)
    assert {len(group) for group in drawn(400)[:-1]} == set(range(1, MOST_SESSIONS + 1))
    for setting in ("top_k", "top_p", "min_p", "repetition_penalty", "banned", "logit_bias"):
        assert len({getattr(case.sampling, setting) for case in many}) > 1, setting
    fallbacks = {case.fallback_after for case in many}
    assert None in fallbacks
    assert {0, 5, 20} <= fallbacks


def test_a_case_keeps_within_file_and_target() -> None:
    texts = {(file.language, file.name): file.text for files in sources().values() for file in files}
    for case in cases(400):
        assert 400 <= case.offset <= len(texts[case.language, case.file])
        assert case.prompt_tokens <= BOUNDS.prompt_tokens
        assert case.fallback_after is None or case.fallback_after < case.stop.max_tokens
        assert all(token < BOUNDS.vocabulary_size for token in case.sampling.banned)


def test_languages_take_turns_and_every_file_is_cut() -> None:
    many = cases(20, files=2)
    assert [case.language for case in many[:5]] == list(LANGUAGES)
    assert {case.file for case in many} == {f"{language}/{number}" for language in LANGUAGES for number in range(2)}
