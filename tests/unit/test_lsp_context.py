"""The prompt's window, and the tokens of other files."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path

import pytest
from tiny_models import REPOSITORY, save_tokenizer

from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from drafts.vocabulary import Vocabulary
from lsp_server.context import BufferTokens, prompt_tokens, steady_end
from lsp_server.suggestion import Buffer, CompletionRequest
from slipstream.description import Limits, TargetDescription

BUDGET = 800


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return Vocabulary.load(folder)


@pytest.fixture(scope="module")
def source() -> str:
    return (Path(REPOSITORY) / "decoding" / "session.py").read_text()


def described(vocabulary: Vocabulary, *, context_length: int = 1000, prompt_limit: int = 900) -> TargetDescription:
    return TargetDescription(
        model_id="m",
        model_revision="0",
        tokenizer_fingerprint=vocabulary.fingerprint,
        vocabulary_size=vocabulary.size,
        end_of_text_ids=vocabulary.end_of_text_ids,
        fim=None,
        context_length=context_length,
        dtype="float32",
        device="cpu",
        noise_version="0",
        limits=Limits(sessions=1, queued_requests=0, prompt_tokens=prompt_limit, block_rows=8, message_bytes=2**20),
        drafters=(),
        server_version="0",
    )


def request(prefix: str, budget: int) -> CompletionRequest:
    return CompletionRequest(
        request_id="r",
        prefix=prefix,
        sampling=SamplingConfig(),
        stop=StopRules(max_tokens=64),
        prompt_tokens=budget,
        deadline_s=1,
    )


def test_a_short_text_is_whole(vocabulary: Vocabulary) -> None:
    assert steady_end("a = 1\n", vocabulary, BUDGET) == "a = 1\n"


def test_the_window_fits_and_begins_at_a_line(vocabulary: Vocabulary, source: str) -> None:
    for cut in range(4000, len(source), 501):
        end = steady_end(source[:cut], vocabulary, BUDGET)
        assert source[:cut].endswith(end)
        assert source[cut - len(end) - 1] == "\n"
        assert BUDGET // 2 < len(vocabulary.encode(end)) <= BUDGET


def test_the_window_begins_where_it_did_while_text_is_typed(vocabulary: Vocabulary, source: str) -> None:
    typed = range(5000, 7000, 4)
    begins = [cut - len(steady_end(source[:cut], vocabulary, BUDGET)) for cut in typed]
    moves = sum(before != after for before, after in pairwise(begins))
    lines = source[typed[0] : typed[-1]].count("\n")
    assert moves <= lines / 3


def test_a_text_of_one_line_still_gives_a_prompt(vocabulary: Vocabulary) -> None:
    tokens = prompt_tokens(request("a+b*" * 5000, BUDGET), "python", vocabulary, described(vocabulary))
    assert len(tokens) == BUDGET


@pytest.mark.parametrize(
    ("context_length", "prompt_limit", "budget", "least"),
    [(1000, 900, 300, 300), (1000, 100, 300, 100), (200, 900, 300, 136), (70, 900, 300, 35), (2, 900, 300, 1)],
)
def test_the_prompt_keeps_every_limit(
    vocabulary: Vocabulary, source: str, context_length: int, prompt_limit: int, budget: int, least: int
) -> None:
    description = described(vocabulary, context_length=context_length, prompt_limit=prompt_limit)
    tokens = prompt_tokens(request(source, budget), "python", vocabulary, description)
    assert 0 < len(tokens) <= least
    assert source.endswith(vocabulary.decode(tokens))


def test_a_long_output_leaves_the_prompt_half_of_the_context(vocabulary: Vocabulary, source: str) -> None:
    long = dataclasses.replace(request(source, 300), stop=StopRules(max_tokens=4096))
    tokens = prompt_tokens(long, "python", vocabulary, described(vocabulary, context_length=400))
    assert 150 <= len(tokens) <= 200


async def test_a_files_tokens_are_kept_until_its_text_changes(vocabulary: Vocabulary) -> None:
    kept = BufferTokens(2)
    first = await kept.of(Buffer(key="a", text="a = 1\n"), vocabulary, 100)
    assert first == vocabulary.encode("a = 1\n")
    assert await kept.of(Buffer(key="a", text="a = 1\n"), vocabulary, 100) is first
    assert await kept.of(Buffer(key="a", text="a = 2\n"), vocabulary, 100) == vocabulary.encode("a = 2\n")
    assert len(await kept.of(Buffer(key="a", text="a = 2\n"), vocabulary, 2)) == 2
    for key in "abc":
        await kept.of(Buffer(key=key, text="x"), vocabulary, 100)
    assert len(kept._kept) == 2
