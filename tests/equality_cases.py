"""Random cases of one question: is a speculated output the plain one in every part?

A case is drawn from its number alone, so that a failure can be repeated by it. What it is compared with is written
here without our scanner, sequences or sessions: plain decoding without stop rules, then cut where the rules' words
say, over the whole text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random

from decoding.draft_length import DraftLength
from decoding.record_book import RecordBook
from decoding.rules import GuardRules
from decoding.sampling import SamplingConfig
from decoding.session import Chunk, DraftStop, Mode, Session
from decoding.stopping import FinishReason, StopRules
from decoding.verdict import DecodeRequest, Statistics

DRAFTERS = ("oracle", "oracle", "beyond", "sure", "noise", "empty", "repeat", "lookup", "breaking")
FAULTS = ("drafting raises", "reading raises", "too long", "stale", "another config")
LINE_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    text: str
    finish: FinishReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Plain decoding without stop rules, so far as any rule of the case lets an output go; `ended` by end of text."""

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    ended: bool

    def cut(self, stop: StopRules, *, room: int, token_bytes: Callable[[int], bytes]) -> Output:
        """What stop rules and `room` tokens in the context leave of it."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        text = ""

        def output(count: int, reason: FinishReason) -> Output:
            shown = text + decoder.decode(b"", final=True)
            place, reason = first_event(shown, stop) or (len(shown), reason)
            return Output(
                tokens=self.tokens[:count],
                log_probabilities=self.log_probabilities[:count],
                text=shown[:place],
                finish=reason,
            )

        for count, token in enumerate(self.tokens):
            if token in stop.token_ids:
                return output(count, FinishReason.STOP_TOKEN)
            text += decoder.decode(token_bytes(token))
            if event := first_event(text, stop):
                decoder.reset()
                return output(count + 1, event[1])
            if count + 1 == stop.max_tokens:
                return output(count + 1, FinishReason.TOKEN_LIMIT)
            if count + 1 == room:
                return output(count + 1, FinishReason.CONTEXT_FULL)
        assert self.ended
        return output(len(self.tokens), FinishReason.END_OF_TEXT)


def first_event(text: str, stop: StopRules) -> tuple[int, FinishReason] | None:
    """Where a stop string or the line limit ends the text first, a string before a line break at the same place."""
    places = [text.find(string) for string in stop.strings if string in text]
    breaks = [found.start() for found in LINE_BREAK.finditer(text)]
    limit = breaks[stop.max_lines - 1] if stop.max_lines and len(breaks) >= stop.max_lines else None
    if places and (limit is None or min(places) <= limit):
        return min(places), FinishReason.STOP_STRING
    return None if limit is None else (limit, FinishReason.LINE_LIMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """How one output is made, its stop rules apart.

    right: chance that an oracle's token is the target's.
    fault, fails_at: what goes wrong with a breaking drafter, and at which of its drafts.
    stop_after: chunks before drafting is stopped for `stop_reason`, -1 for never.
    slow: drafts take longer than they may.
    step_us: what steps of 1, 4 and 8 rows are said to take where the length of drafts is chosen by that; else ().
    rows_at_once: how many rows a toy's block is decided by at a time.
    """

    number: int
    mode: Mode
    drafter: str
    right: float
    fault: str
    fails_at: int
    block_rows: int
    guard: GuardRules
    stop_after: int
    stop_reason: DraftStop
    slow: bool
    step_us: tuple[int, ...]
    rows_at_once: int

    def session(
        self,
        request: DecodeRequest,
        *,
        context_length: int,
        token_bytes: Callable[[int], bytes],
        end_of_text: Collection[int],
    ) -> Session:
        length = None
        if self.step_us:
            book = RecordBook()
            for rows, us in zip((1, 4, 8), self.step_us, strict=True):
                book.timings.add_step(rows, us)
            length = DraftLength(book.of("python", "toy").record)
        return Session(
            request,
            mode=self.mode,
            block_rows=self.block_rows,
            context_length=context_length,
            token_bytes=token_bytes,
            end_of_text=end_of_text,
            guard=self.guard,
            length=length,
        )


def joined(chunks: Sequence[Chunk]) -> Output:
    """The output that a session's chunks make up."""
    return Output(
        tokens=tuple(token for chunk in chunks for token in chunk.tokens),
        log_probabilities=tuple(value for chunk in chunks for value in chunk.log_probabilities),
        text="".join(chunk.text for chunk in chunks),
        finish=chunks[-1].finish,
    )


def draw_case(number: int, dice: Random) -> Case:
    return Case(
        number=number,
        mode=dice.choices((Mode.EDGE, Mode.SERVER, Mode.PLAIN), (6, 3, 1))[0],
        drafter=dice.choice(DRAFTERS),
        right=dice.choice((0.3, 0.7, 0.95, 1.0)),
        fault=dice.choice(FAULTS),
        fails_at=dice.randint(1, 4),
        block_rows=dice.randint(1, 8),
        guard=GuardRules(
            judged=dice.randint(1, 16),
            rate=dice.choice((0.0, 0.0, 0.4, 0.8)),
            empty_drafts=dice.randint(0, 3),
            pause_tokens=dice.randint(1, 5),
            server_run_tokens=dice.randint(1, 20),
        ),
        stop_after=dice.choice((-1, -1, -1, -1, 0, 1, 2, 5)),
        stop_reason=dice.choice((DraftStop.GATE, DraftStop.OVER_BUDGET)),
        slow=dice.random() < 0.1,
        step_us=dice.choice(((), (), tuple(sorted(dice.randint(1, 9) * 10_000 for _ in range(3))))),
        rows_at_once=dice.choice((1, 3, 8)),
    )


def draw_sampling(dice: Random, ids: Sequence[int], *, bias: float = 3.0) -> SamplingConfig:
    """Every processor now and then, alone and together; of `ids`, at least four, some are biased and some banned."""
    biased = dice.sample(ids, dice.choice((0, 0, 1, 4)))
    return SamplingConfig(
        temperature=dice.choice((0.0, 0.0, 0.3, 0.8, 1.0, 2.0)),
        top_k=dice.choice((0, 0, 1, 3, 5)),
        top_p=dice.choice((1.0, 1.0, 0.9, 0.5)),
        min_p=dice.choice((0.0, 0.0, 0.1, 0.4)),
        repetition_penalty=dice.choice((1.0, 1.0, 1.3, 0.8, 2.0)),
        logit_bias=tuple((token, dice.uniform(-bias, bias)) for token in biased),
        banned=tuple(dice.sample(ids, dice.choice((0, 0, 1, 3)))),
        seed=dice.getrandbits(64),
    )


def draw_stop(dice: Random, text: str, tokens: Sequence[int], *, most: int) -> StopRules:
    """Rules that mostly come true: strings cut from the text, whole or with another end, and ids from the output."""
    strings = []
    for _ in range(dice.choice((0, 0, 1, 3)) if text else 0):
        start = dice.randrange(len(text))
        cut = text[start : start + dice.randint(1, 5)]
        strings.append(cut if dice.random() < 0.8 else cut + dice.choice("aé🙂\n\ufffd"))
    ids = (dice.choice(tokens),) if tokens and dice.random() < 0.15 else ()
    return StopRules(
        max_tokens=dice.choice((most, most, most, dice.randint(1, most))),
        max_lines=dice.choice((0, 0, 0, 0, 1, 2, 4)),
        token_ids=ids,
        strings=tuple(strings),
    )


def check_counts(counts: Statistics, output: Output, stop: StopRules) -> None:
    """What the contract says of any request's counts."""
    unseen = output.finish in (FinishReason.END_OF_TEXT, FinishReason.STOP_TOKEN, FinishReason.STOP_STRING)
    assert counts.emitted_tokens == len(output.tokens) == len(output.log_probabilities) <= stop.max_tokens
    assert 0 <= counts.accepted_tokens <= counts.judged_tokens <= counts.drafted_tokens
    # An id that ends the text is judged and accepted where it was drafted, but is not emitted.
    assert counts.accepted_tokens <= counts.emitted_tokens + unseen
    assert counts.judged_tokens <= counts.accepted_tokens + counts.verify_steps
    assert counts.emitted_tokens <= counts.accepted_tokens + counts.verify_steps
    assert 1 <= counts.verify_steps <= counts.emitted_tokens + 1
    assert counts.acceptance_rate is None or 0 <= counts.acceptance_rate <= 1
