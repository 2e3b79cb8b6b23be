"""Prefixes against a cache that remembers, for every position, which text its keys and values were computed from."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from decoding.errors import ContractViolation
from target_server.prefixes import Claim, Prefixes

ROWS = 3
PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=5 * ROWS).map(tuple)
Text = tuple[int, ...]


@dataclass
class Slot:
    """positions: for each, the text up to it, and whether a whole chunk of a prefill wrote it."""

    positions: list[tuple[Text, bool]] = field(default_factory=list)
    released: int = 0

    def write(self, text: Text, start: int, *, whole: bool) -> None:
        del self.positions[start:]
        self.positions += [(text[: end + 1], whole) for end in range(start, len(text))]

    def stands(self, prompt: Text) -> int:
        """Tokens in whole chunks, from the first on, that a prefill of the prompt would have written alike."""
        alike = 0
        while alike < min(len(self.positions), len(prompt) - 1):
            if self.positions[alike] != (prompt[: alike + 1], True):
                break
            alike += 1
        return alike // ROWS * ROWS

    @property
    def empty(self) -> bool:
        return not self.positions or not self.positions[0][1]


class Machine(RuleBasedStateMachine):
    """Requests open, prefill, decode and end in any order; what they are handed is held against what really stands."""

    @initialize(slots=st.integers(1, 4), retain=st.booleans())
    def start(self, slots: int, retain: bool) -> None:
        self.known = Prefixes(slots, chunk_rows=ROWS, retain=retain)
        self.retain = retain
        self.slots = [Slot() for _ in range(slots)]
        self.open: dict[int, Text] = {}
        self.cached: dict[int, int] = {}
        self.time = 0

    def free(self) -> set[int]:
        return set(range(len(self.slots))) - set(self.open)

    @precondition(lambda self: self.free())
    @rule(prompt=PROMPTS)
    def claim(self, prompt: Text) -> None:
        free = self.free()
        claim = self.known.claim(prompt)
        assert claim.slot in free
        assert claim.source != claim.slot
        assert claim.tokens % ROWS == 0
        assert claim.tokens < len(prompt)
        assert (claim.source is None) or claim.tokens
        assert claim.tokens == max(slot.stands(prompt) for slot in self.slots)
        held = claim.slot if claim.source is None else claim.source
        assert self.slots[held].stands(prompt) == claim.tokens
        if claim.source is not None or not claim.tokens:
            self.check_least_of_use(claim, free)
        self.slots[claim.slot].write(prompt[: claim.tokens], 0, whole=True)
        self.open[claim.slot], self.cached[claim.slot] = prompt, claim.tokens

    def check_least_of_use(self, claim: Claim, free: set[int]) -> None:
        """Of the others: one that holds nothing, else the one released longest ago; the source only if it is alone."""
        others = [self.slots[slot] for slot in free - {claim.source}] or [self.slots[claim.slot]]
        chosen = self.slots[claim.slot]
        if not chosen.empty:
            assert not any(slot.empty for slot in others)
            assert chosen.released == min(slot.released for slot in others)

    @precondition(lambda self: not self.free())
    @rule(prompt=PROMPTS)
    def claim_too_much(self, prompt: Text) -> None:
        with pytest.raises(ContractViolation):
            self.known.claim(prompt)

    @precondition(lambda self: any(self.cached[slot] < len(prompt) - 1 for slot, prompt in self.open.items()))
    @rule(data=st.data(), chunks=st.integers(1, 4))
    def prefill(self, data: st.DataObject, chunks: int) -> None:
        slot = data.draw(st.sampled_from([s for s, prompt in self.open.items() if self.cached[s] < len(prompt) - 1]))
        prompt = self.open[slot][:-1]
        for start in range(self.cached[slot], len(prompt), ROWS)[:chunks]:
            chunk = prompt[start : start + ROWS]
            self.slots[slot].write(prompt[: start + len(chunk)], start, whole=len(chunk) == ROWS)
            self.known.filled(slot, start, chunk)
            self.cached[slot] = start + len(chunk)

    @precondition(lambda self: any(self.cached[slot] == len(prompt) - 1 for slot, prompt in self.open.items()))
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 1), max_size=2 * ROWS).map(tuple))
    def decode(self, data: st.DataObject, tokens: Text) -> None:
        slot = data.draw(st.sampled_from([s for s, prompt in self.open.items() if self.cached[s] == len(prompt) - 1]))
        prompt = self.open[slot]
        self.slots[slot].write(prompt + tokens, len(prompt) - 1, whole=False)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), sound=st.booleans())
    def release(self, data: st.DataObject, sound: bool) -> None:
        slot = data.draw(st.sampled_from(list(self.open)))
        del self.open[slot], self.cached[slot]
        self.time += 1
        self.slots[slot].released = self.time
        if not (self.retain and sound):
            self.slots[slot].positions.clear()
        self.known.release(slot, sound=sound)

    @invariant()
    def nobody_is_counted_twice(self) -> None:
        if hasattr(self, "known"):
            assert self.known.free == len(self.free())


Machine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPrefixes = Machine.TestCase
