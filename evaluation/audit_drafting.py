"""The audit's drafters, from right to absurd, and the desk at which a target fetches the one that a case names.

None of them knows what the target would emit, but the oracle, which has been told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from decoding.drafting import Draft, Drafter, DraftingRequest, DraftSession
from drafts.registry import DrafterRegistry
from drafts.vocabulary import Vocabulary
from evaluation.audit_cases import Case
from evaluation.audit_comparison import Output
from evaluation.hostile import NoiseDrafting

Opener = Callable[[DraftingRequest], DraftSession]


class OracleDrafting:
    """Drafts what the target is known to emit, of any length up to the limit; each token is spoilt by chance.

    known: the whole output, with the id that ends the text where one did. right: 0 to 1, the share not spoilt.
    """

    def __init__(self, known: Sequence[int], *, start: int, right: float, noise: Callable[[], int], draw: Random):
        self._known = tuple(known)
        self._start = start
        self._position = start
        self._right = right
        self._noise = noise
        self._draw = draw

    def extend(self, tokens: Sequence[int]) -> None:
        self._position += len(tokens)

    def propose(self, limit: int) -> Draft:
        done = self._position - self._start
        ahead = self._known[done : done + self._draw.randint(1, limit)]
        return Draft(
            position=self._position,
            tokens=tuple(token if self._draw.random() < self._right else self._noise() for token in ahead),
            sampling_fingerprint="",
        )


class ShortDrafting:
    """Another's drafts, of at most `longest` tokens."""

    def __init__(self, drafting: DraftSession, longest: int) -> None:
        self._drafting = drafting
        self._longest = longest

    def extend(self, tokens: Sequence[int]) -> None:
        self._drafting.extend(tokens)

    def propose(self, limit: int) -> Draft:
        return self._drafting.propose(min(limit, self._longest))


class Drafters:
    """Makes the drafting that a case asks for."""

    def __init__(self, registry: DrafterRegistry, vocabulary: Vocabulary) -> None:
        self._registry = registry
        self._ends = vocabulary.end_of_text_ids
        self._ordinary = ordinary_ids(vocabulary)

    def name(self, case: Case) -> str:
        """The drafter that a case gets: its language may have no table for the one that it asks for."""
        return case.drafter if case.drafter in ("noise", "oracle") else self._real(case).name

    def opener(self, case: Case, plain: Output) -> Opener:
        """Opens the case's drafting, any number of times: a target does so for every run."""

        def open_drafting(request: DraftingRequest) -> DraftSession:
            return ShortDrafting(self._session(case, plain, request), case.draft_tokens)

        return open_drafting

    def _session(self, case: Case, plain: Output, request: DraftingRequest) -> DraftSession:
        draw = Random(f"{case.sampling.seed}/{case.number}")  # noqa: S311 - reproducible, not secret
        start, noise = len(request.prompt), partial(draw.choice, self._ordinary)
        if case.drafter == "noise":
            return NoiseDrafting(start, noise)
        if case.drafter == "oracle":
            known = (*plain.tokens, *self._ends[:1])
            return OracleDrafting(known, start=start, right=case.right, noise=noise, draw=draw)
        return self._real(case).open(request)

    def _real(self, case: Case) -> Drafter:
        found = self._registry.named(case.language, case.drafter) or self._registry.named(case.language, "lookup")
        if found is None:
            raise LookupError(case.drafter)  # the registry always has lookup
        return found


class Desk:
    """What a target's own drafting is made of: openers by the drafter's name, left here by whoever opens a request."""

    def __init__(self) -> None:
        self._openers: dict[str, Opener] = {}

    def leave(self, name: str, opener: Opener) -> None:
        self._openers[name] = opener

    def take_back(self, name: str) -> None:
        self._openers.pop(name, None)

    def __call__(self, language: str, name: str, request: DraftingRequest) -> DraftSession | None:
        del language
        opener = self._openers.get(name)
        return opener(request) if opener else None


def ordinary_ids(vocabulary: Vocabulary) -> tuple[int, ...]:
    """The ids that are text."""
    return tuple(token for token in range(vocabulary.size) if token not in vocabulary.control_ids)
