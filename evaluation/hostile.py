"""A drafter made bad on purpose, to show what that can do to an output (nothing) and what the gate does about it.

It stands in a real drafter's place, under its name, and proposes noise for as long as its switch is on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from decoding.drafting import Draft, Drafter, DraftingRequest, DraftSession
from drafts.vocabulary import Vocabulary

SOURCE = "noise"


class Switch:
    """Whether drafters are hostile; shared by all that it was given to."""

    def __init__(self) -> None:
        self.hostile = False


class HostileDrafter:
    """The drafter behind it, or noise. `noise` gives the ids that it proposes."""

    def __init__(self, real: Drafter, switch: Switch, noise: Callable[[], int]) -> None:
        self._real = real
        self._switch = switch
        self._noise = noise

    @property
    def name(self) -> str:
        return self._real.name

    def open(self, request: DraftingRequest) -> DraftSession:
        if self._switch.hostile:
            return NoiseDrafting(len(request.prompt), self._noise)
        return self._real.open(request)


class NoiseDrafting:
    """One request's noise: always as long as it may be, always sure of itself."""

    def __init__(self, position: int, noise: Callable[[], int]) -> None:
        self._position = position
        self._noise = noise

    def extend(self, tokens: Sequence[int]) -> None:
        self._position += len(tokens)

    def propose(self, limit: int) -> Draft:
        return Draft(
            position=self._position,
            tokens=tuple(self._noise() for _ in range(limit)),
            confidences=(1.0,) * limit,
            sources=(SOURCE,) * limit,
            sampling_fingerprint="",
        )


def noise(vocabulary: Vocabulary, random: Random) -> Callable[[], int]:
    """Ids drawn evenly from the vocabulary, those that end a text left out."""
    ends = frozenset(vocabulary.end_of_text_ids)
    ids = [token for token in range(vocabulary.size) if token not in ends]
    return lambda: random.choice(ids)
