"""Faults that users of other engines met, looked for through a real server that drafts while it decodes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest
from grpc import aio
from serving import PROMPT, Serving, Stream, eventually, opening, serving
from toy_serving import ToyDrafter, ToyDrafting, ToyTarget, toy_served

from decoding.acceptance import Pick, pick
from decoding.arithmetic import NumpyArithmetic
from decoding.drafting import Drafter, DraftingRequest
from decoding.gate import GateRules
from decoding.processors import Context
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import Finished, FinishReason, Verdict
from drafts.vocabulary import Vocabulary
from slipstream.completion import CompletionRequest
from slipstream.opening import RunMessage

PREFIX = "def square(number):\n    return "
TOKENS = 60
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 2.5},
    "top_k": {"top_k": 2},
    "top_p": {"top_p": 0.3},
    "min_p": {"min_p": 0.5},
    "repetition_penalty": {"repetition_penalty": 3.0},
    "logit_bias": {"logit_bias": ((300, 4.0), (301, 4.0), (302, -9.0))},
    "banned": {"banned": tuple(range(256, 400))},
    "seed": {"seed": 12},
}
USUAL = SamplingConfig(temperature=0.8, seed=11)


def replayed(target: ToyTarget, config: SamplingConfig) -> list[Pick]:
    """What the settings make of the target's logits, a token after the other."""
    history, picks = PROMPT, []
    while len(picks) < TOKENS:
        row, place = target.logits(history[-1]), (Context(history), len(history))
        picks.append(pick(row, *place, config, NumpyArithmetic(), valid_size=target.vocabulary.size))
        history += (picks[-1].token,)
    return picks


async def run_with_drafts(
    running: Serving, fingerprint: str, sampling: SamplingConfig
) -> tuple[list[Verdict], Finished]:
    stream = Stream(running.target)
    await stream.send(opening(PROMPT, fingerprint, sampling=sampling, stop=StopRules(max_tokens=TOKENS), drafter="mix"))
    await stream.send(RunMessage(limit=TOKENS, drafter="mix"))
    _, *verdicts, finished = await stream.rest()
    assert isinstance(finished, Finished)
    return [verdict for verdict in verdicts if isinstance(verdict, Verdict)], finished


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("setting", SETTINGS)
async def test_no_sampling_setting_is_ignored_where_drafts_are_verified(
    running: Serving, target: ToyTarget, vocabulary: Vocabulary, setting: str, greedy: bool
) -> None:
    """Each governs every row of a block: ids and log-probabilities are those of one token after the other."""
    base = SamplingConfig() if greedy else USUAL
    fields = {name: getattr(base, name) for name in SETTINGS}
    config = SamplingConfig(**(fields | SETTINGS[setting]))
    expected = replayed(target, config)
    verdicts, finished = await run_with_drafts(running, vocabulary.fingerprint, config)
    assert [token for verdict in verdicts for token in verdict.tokens] == [pick.token for pick in expected]
    found = [value for verdict in verdicts for value in verdict.log_probabilities]
    assert found == [pick.log_probability for pick in expected]
    assert min(found) < 0
    # At temperature 0 nothing is cut off and nothing drawn; all else changes this output.
    inert = greedy and setting in ("top_k", "top_p", "min_p", "seed")
    assert (expected == replayed(target, base)) is inert
    if greedy and setting not in ("temperature", "repetition_penalty"):
        assert finished.statistics.accepted_tokens > TOKENS // 4


async def test_a_stop_string_inside_accepted_tokens_ends_the_text(running: Serving) -> None:
    """At every place of an output: the text that is streamed ends before the match, and no token comes after it."""

    async def complete(stop: StopRules, *, plain: bool = False) -> tuple[str, int, Finished, bool]:
        _, deltas, finished = await running.complete(
            CompletionRequest(prefix=PREFIX, language="python", sampling=SamplingConfig(), stop=stop, plain=plain)
        )
        inside = bool(deltas[-1].sources) and deltas[-1].sources[-1] != "target"
        text = "".join(delta.text for delta in deltas)
        return text, sum(len(delta.tokens) for delta in deltas), finished, inside

    whole, _, _, _ = await complete(StopRules(max_tokens=TOKENS), plain=True)
    ended_inside = 0
    for start in range(0, len(whole) - 4, 3):
        string = whole[start : start + 4]
        stop = StopRules(max_tokens=TOKENS, strings=(string,))
        text, tokens, finished, inside = await complete(stop)
        assert (text, tokens) == (await complete(stop, plain=True))[:2]
        assert text == whole[: whole.index(string)]
        assert finished.reason is FinishReason.STOP_STRING
        assert finished.statistics.emitted_tokens == tokens
        ended_inside += inside
    assert ended_inside > 0


class ByLanguage:
    """A good drafter for one language, a hostile one for the other."""

    def for_language(self, language: str) -> Drafter:
        return ToyDrafter(hostile=language == "markdown")

    def named(self, language: str, name: str) -> Drafter | None:
        return self.for_language(language) if name == "mix" else None


async def test_prose_that_drafts_badly_costs_code_nothing(vocabulary: Vocabulary, target: ToyTarget) -> None:
    """Requests of two languages by turns: the one's drafter falls back, the other's goes on, and no token changes."""
    rules = GateRules(consecutive=2, threshold_evidence=4, floor_evidence=1000, probe_every=100, slower_margin=1e6)
    served = replace(toy_served(vocabulary, target), drafters=ByLanguage())
    async with serving(served, rules=rules) as running:
        used: dict[str, list[str]] = {"python": [], "markdown": []}
        texts = set()
        for _ in range(5):
            for language, drafters in used.items():
                started, deltas, _ = await running.complete(
                    CompletionRequest(
                        prefix=PREFIX, language=language, sampling=USUAL, stop=StopRules(max_tokens=TOKENS)
                    )
                )
                drafters.append(started.drafter)
                texts.add("".join(delta.text for delta in deltas))
    assert used == {"python": ["mix"] * 5, "markdown": ["mix", "mix", "", "", ""]}
    assert len(texts) == 1


class Counted(ToyDrafter):
    """Knows which of its sessions are still held by somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0
        self.sessions: weakref.WeakSet[ToyDrafting] = weakref.WeakSet()

    def open(self, request: DraftingRequest) -> ToyDrafting:
        session = super().open(request)
        self.opened += 1
        self.sessions.add(session)
        return session

    def held(self) -> int:
        gc.collect()
        return len(self.sessions)


async def test_nothing_of_a_request_is_held_by_its_drafter_afterwards(
    vocabulary: Vocabulary, target: ToyTarget
) -> None:
    """Finished, cancelled in the middle or past their deadline: drafting state goes with the requests."""
    drafter, each = Counted(), 6
    asked = CompletionRequest(prefix=PREFIX, language="python", sampling=USUAL, stop=StopRules(max_tokens=TOKENS))
    async with serving(toy_served(vocabulary, target, drafter)) as running:
        await asyncio.gather(*(running.complete(asked) for _ in range(each)))
        target.before_step = asyncio.Event().wait
        calls = [asyncio.create_task(running.complete(asked)) for _ in range(each)]
        await target.until(lambda: target.open_now == each)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        for _ in range(each):
            with pytest.raises(aio.AioRpcError):
                await running.complete(asked, timeout_s=0.1)
        await target.until(lambda: target.open_now == 0)
        # One call's frames may outlive it inside of gRPC, however many calls there were.
        await eventually(lambda: drafter.held() <= 1)
    assert drafter.opened > each
