"""Faults that users of other engines met, where drafts meet the model: each would show here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engines import decode_plainly, decode_with, noisy_oracle, plain_draft, request_for, settings, tokens_of
from tiny_models import save_tiny_model
from toy_target import ToyTarget

from decoding.acceptance import pick
from decoding.arithmetic import NumpyArithmetic
from decoding.drafting import Draft, DraftingRequest
from decoding.errors import InvalidSetting, Mismatch
from decoding.processors import Context
from decoding.rules import GuardRules
from decoding.sampling import SamplingConfig
from decoding.session import DraftStop, Mode, Session
from decoding.verdict import DecodeRequest, Verdict
from drafts.lookup import LookupGuesser
from drafts.mix import GuessingDrafter
from drafts.settings import DraftSettings
from drafts.speculation import speculate
from drafts.vocabulary import Vocabulary
from target_server.engine import Engine
from target_server.loader import LoadedModel, load
from target_server.store import locate

PROMPT = tuple(range(1, 41))
VOCABULARY = 512


@pytest.fixture
async def engine(tiny_loaded: LoadedModel) -> AsyncIterator[Engine]:
    engine = Engine(tiny_loaded, settings(sessions=4, context_tokens=512, prompt_tokens=480))
    yield engine
    engine.close()


def log_probabilities(verdicts: Sequence[Verdict]) -> list[float]:
    return [value for verdict in verdicts for value in verdict.log_probabilities]


async def test_each_request_draws_by_its_own_seed_whoever_draws_beside_it(
    tiny_loaded: LoadedModel, engine: Engine
) -> None:
    """One prompt, four requests at once under three seeds: each is as it was alone, and only equal seeds agree."""
    seeds = (1, 2, 3, 1)
    requests = [
        request_for(tiny_loaded, PROMPT, sampling=SamplingConfig(temperature=1.2, seed=seed), max_tokens=24)
        for seed in seeds
    ]
    alone = [tokens_of((await decode_plainly(engine, request))[0]) for request in requests]
    for right in (0.0, 0.8):
        together = await asyncio.gather(
            *(
                decode_with(engine, request, noisy_oracle(known, right=right, vocabulary=VOCABULARY, longest=7, seed=n))
                for n, (request, known) in enumerate(zip(requests, alone, strict=True))
            )
        )
        assert [tokens_of(verdicts) for verdicts, _ in together] == alone
    assert alone[0] == alone[3]
    assert len({tuple(tokens) for tokens in alone}) == 3


def test_a_drafter_that_shares_the_noise_bends_no_draw() -> None:
    """Drafts made with the target's own noise agree more often; what is emitted is the plain draw under every seed."""
    target, other = ToyTarget(salt=1), ToyTarget(salt=2)
    agreed = {"shared": 0, "own": 0}
    for seed in range(300):
        config = SamplingConfig(temperature=2.0, banned=(0,), seed=seed)
        plain = target.judge(target.open(sampling=config), (1, 2)).tokens
        for noise, its_seed in (("shared", seed), ("own", seed + 1000)):
            drawn = replace(config, seed=its_seed)
            guess = pick(other.logits((1, 2)), Context(), 2, drawn, NumpyArithmetic(), valid_size=other.size).token
            verdict = target.judge(target.open(sampling=config), (1, 2), (guess,))
            assert verdict.tokens[0] == plain[0]
            agreed[noise] += verdict.accepted
    assert agreed["shared"] > agreed["own"] > 0


@pytest.mark.parametrize("confidence", [None, 0.0, 0.5, 1.0])
async def test_what_a_drafter_says_of_its_tokens_changes_no_verdict(
    tiny_loaded: LoadedModel, engine: Engine, confidence: float | None
) -> None:
    """A verdict is on token ids alone: stated chances, honest or not, have no part in it."""
    sampling = SamplingConfig(temperature=1.0, seed=5)
    request = request_for(tiny_loaded, PROMPT, sampling=sampling, max_tokens=8)
    known = tokens_of((await decode_plainly(engine, request))[0])
    drafted = (*known[:3], (known[3] + 1) % VOCABULARY, known[4])
    async with engine.open(request) as sequence:
        draft = Draft(
            position=len(PROMPT),
            tokens=drafted,
            confidences=() if confidence is None else (confidence,) * 5,
            sampling_fingerprint=sampling.fingerprint(),
        )
        verdict = await sequence.verify(draft)
    assert (verdict.accepted, verdict.judged, list(verdict.tokens)) == (3, 4, known[:4])


class ShortSighted:
    """A drafter whose own context ends: it breaks at the first draft beyond."""

    def __init__(self, prompt: tuple[int, ...], *, context: int) -> None:
        self.tokens, self.context = list(prompt), context

    def extend(self, tokens: Sequence[int]) -> None:
        self.tokens.extend(tokens)

    def propose(self, limit: int) -> Draft:
        if len(self.tokens) + limit > self.context:
            raise IndexError("position embeddings end here")
        return Draft(position=len(self.tokens), tokens=tuple(self.tokens[-limit:]), sampling_fingerprint="")


def short_lookup(request: DecodeRequest) -> Any:
    """Remembers 256 tokens, fewer than the prompt has."""
    known = DraftSettings(index_tokens=256, buffer_tokens=0, least_confidence=0.3)
    drafter = GuessingDrafter("lookup", [lambda asked: LookupGuesser(asked, known)], least_confidence=0.3)
    return drafter.open(DraftingRequest(prompt=request.prompt, language="python", sampling=request.sampling))


@pytest.mark.parametrize("drafter", ["lookup", "breaks in the prompt", "breaks in the output"])
async def test_a_request_longer_than_its_drafters_context_goes_on(
    tiny_loaded: LoadedModel, engine: Engine, drafter: str
) -> None:
    request = request_for(tiny_loaded, PROMPT * 11, max_tokens=40)
    plain, _ = await decode_plainly(engine, request)
    known = tokens_of(plain)
    room = 400 if drafter == "breaks in the prompt" else 460
    drafting = short_lookup(request) if drafter == "lookup" else ShortSighted(request.prompt, context=room)
    session = Session(
        request,
        mode=Mode.EDGE,
        block_rows=8,
        context_length=512,
        token_bytes=tiny_loaded.vocabulary.token_bytes,
        end_of_text=tiny_loaded.vocabulary.end_of_text_ids,
        guard=GuardRules(rate=0.0),
    )
    async with engine.open(request) as sequence:
        chunks = [chunk async for chunk in speculate(session, drafting, sequence, clock=lambda: 0)]
    assert [token for chunk in chunks for token in chunk.tokens] == known
    assert session.draft_stop is (None if drafter == "lookup" else DraftStop.DRAFTER_FAILED)
    if drafter == "lookup":
        assert session.statistics.accepted_tokens > 0


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A model whose matrices have 64 rows more than its tokenizer has ids, and likes those rows best."""
    import torch
    from safetensors.torch import load_file, save_file

    folder = save_tiny_model(tmp_path_factory.mktemp("models") / "padded", vocab_size=VOCABULARY + 64)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"][VOCABULARY:] = weights["lm_head.weight"][7:8] * 3 + torch.ones(64)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return load(locate(str(folder), folder), settings())


async def test_a_vocabulary_padded_beyond_its_tokenizer_is_served_without_the_padding(padded: LoadedModel) -> None:
    engine = Engine(padded, settings())
    assert padded.vocabulary.size == VOCABULARY
    for sampling in (SamplingConfig(), SamplingConfig(temperature=1.5, seed=4)):
        request = request_for(padded, PROMPT, sampling=sampling, max_tokens=24)
        plain, _ = await decode_plainly(engine, request)
        known = tokens_of(plain)
        assert max(known) < VOCABULARY
        guess = noisy_oracle(known, right=0.8, vocabulary=VOCABULARY, longest=7, seed=1)
        drafted, _ = await decode_with(engine, request, guess)
        assert (tokens_of(drafted), log_probabilities(drafted)) == (known, log_probabilities(plain))
    async with engine.open(request) as sequence:
        with pytest.raises(InvalidSetting, match=f"from 0 to {VOCABULARY - 1}"):
            await sequence.verify(plain_draft(request, tokens=(VOCABULARY + 1,)))
    engine.close()


def with_two_ids_swapped(folder: Path) -> Vocabulary:
    """The tokenizer in a folder, but that "a" and "b" have each other's ids."""
    files = {path.name: path.read_bytes() for path in folder.glob("tokenizer*.json")}
    described = json.loads(files["tokenizer.json"])
    ids = described["model"]["vocab"]
    ids["a"], ids["b"] = ids["b"], ids["a"]
    return Vocabulary.from_files({**files, "tokenizer.json": json.dumps(described).encode()})


async def test_a_tokenizer_of_the_same_size_is_still_another(
    tiny_loaded: LoadedModel, engine: Engine, tiny_model_folder: Path
) -> None:
    """What tells tokenizers apart is what their ids mean, not how many there are."""
    other = with_two_ids_swapped(tiny_model_folder)
    assert other.size == tiny_loaded.vocabulary.size
    with pytest.raises(Mismatch, match="tokenizer"):
        async with engine.open(request_for(replace(tiny_loaded, vocabulary=other), PROMPT)):
            pass


@pytest.mark.parametrize("drafted_first", [False, True])
@pytest.mark.parametrize("drafted_then", [False, True])
async def test_speculation_reuses_as_much_of_a_prompt_as_plain_decoding(
    tiny_loaded: LoadedModel, engine: Engine, drafted_first: bool, drafted_then: bool
) -> None:
    """Whole chunks of the prompt stand from the request before, however either was decoded; no token changes."""
    request = request_for(tiny_loaded, PROMPT * 3, max_tokens=16)
    known = tokens_of((await decode_plainly(engine, replace(request, prompt=(9, *request.prompt))))[0])
    outputs, cached = [], []
    for drafted in (drafted_first, drafted_then):
        guess = noisy_oracle(known, right=0.7, vocabulary=VOCABULARY, longest=7, seed=2)
        verdicts, finished = await (decode_with(engine, request, guess) if drafted else decode_plainly(engine, request))
        outputs.append((tokens_of(verdicts), log_probabilities(verdicts)))
        cached.append(finished.statistics.cached_tokens)
    chunk = settings().prefill_rows
    assert cached == [0, (len(request.prompt) - 1) // chunk * chunk]
    assert outputs[0] == outputs[1]
