"""Make drafts of guesses: at each position the surest guesser speaks, and the draft ends where none is sure enough.

Rows of a verified block cost next to nothing, but a rejected token costs acceptance, which the gate watches. So a draft
is as long as it stays likely to be right, and no longer. Lookup alone, a table alone and both together are the same
drafter with other guessers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from decoding.drafting import Draft, DraftingRequest
from drafts.guessing import Guess, Guesser

GuesserFactory = Callable[[DraftingRequest], Guesser]


class GuessingDrafter:
    """A named drafter over one or more guessers; holds no state of a request."""

    def __init__(self, name: str, guessers: Sequence[GuesserFactory], *, least_confidence: float) -> None:
        self._name = name
        self._guessers = tuple(guessers)
        self._least_confidence = least_confidence

    @property
    def name(self) -> str:
        return self._name

    def open(self, request: DraftingRequest) -> GuessingSession:
        return GuessingSession(request, [make(request) for make in self._guessers], self._least_confidence)


class GuessingSession:
    """One request's drafting: a DraftSession."""

    def __init__(self, request: DraftingRequest, guessers: Sequence[Guesser], least_confidence: float) -> None:
        self._guessers = guessers
        self._least_confidence = least_confidence
        self._position = len(request.prompt)
        self._sampling_fingerprint = request.sampling.fingerprint()

    def extend(self, tokens: Sequence[int]) -> None:
        for guesser in self._guessers:
            guesser.extend(tokens)
        self._position += len(tokens)

    def propose(self, limit: int) -> Draft:
        """At most `limit` tokens; deterministic, and without effect on later drafts."""
        drafted: list[Guess] = []
        ahead: list[int] = []
        while len(drafted) < limit:
            guess = self._surest(ahead)
            if guess is None or guess.confidence < self._least_confidence:
                break
            drafted.append(guess)
            ahead.append(guess.token)
        return Draft(
            position=self._position,
            tokens=tuple(ahead),
            confidences=tuple(guess.confidence for guess in drafted),
            sources=tuple(guess.source for guess in drafted),
            sampling_fingerprint=self._sampling_fingerprint,
        )

    def _surest(self, ahead: Sequence[int]) -> Guess | None:
        """The likeliest guess; where guessers agree on a token, the chance that not all of them are wrong."""
        guesses = [guess for guesser in self._guessers if (guess := guesser.guess(ahead)) is not None]
        if not guesses:
            return None
        best = max(guesses, key=lambda guess: guess.confidence)  # of equals the first guesser
        doubt = 1.0
        for guess in guesses:
            if guess.token == best.token:
                doubt *= 1.0 - guess.confidence
        return Guess(token=best.token, confidence=1.0 - doubt, source=best.source)
