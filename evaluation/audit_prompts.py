"""From a case to the requests that it makes: its prompt's tokens, and what is asked before it. Pure.

Every prompt begins with two tokens that are its case's alone, so that a target can't have kept anything of it from
another case: what is reused is what the case says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from drafts.vocabulary import Vocabulary
from evaluation.audit_cases import Case, Reuse
from evaluation.audit_drafting import ordinary_ids
from evaluation.audit_sources import Source

_CHARACTERS_A_TOKEN = 8  # read for each token wanted; blanks and identifiers take fewer tokens than that
_HEAD_TOKENS = 2
_ASKED_BEFORE_TOKENS = 2


class Prompts:
    """Cuts prompts from sources. `prompt_tokens`: the target's limit."""

    def __init__(self, sources: Mapping[str, Sequence[Source]], vocabulary: Vocabulary, *, prompt_tokens: int) -> None:
        self._texts = {(file.language, file.name): file.text for files in sources.values() for file in files}
        self._vocabulary = vocabulary
        self._limit = prompt_tokens
        self._ordinary = ordinary_ids(vocabulary)

    def request(self, case: Case, *, drafter: str) -> DecodeRequest:
        """What is asked of the target, plainly and disturbed; the drafter's name alone differs."""
        return self._request(self._prompt(case), case, drafter, case.sampling, case.stop)

    def asked_before(self, case: Case) -> DecodeRequest | None:
        """What the target is asked right before the case, None where nothing is to be reused."""
        prompt = self._prompt(case)
        fork = max(_HEAD_TOKENS, len(prompt) - case.reuse_tokens)
        match case.reuse:
            case Reuse.NOTHING:
                return None
            case Reuse.SAME:
                pass
            case Reuse.SHORTER:
                prompt = prompt[:fork]
            case Reuse.LONGER:
                after = self._text(case)[case.offset : case.offset + _CHARACTERS_A_TOKEN * case.reuse_tokens]
                prompt = (prompt + self._vocabulary.encode(after)[: case.reuse_tokens])[: self._limit]
            case Reuse.FORKED:
                prompt = prompt[:fork] + prompt[:fork:-1]
        return self._request(prompt, case, "", SamplingConfig(), StopRules(max_tokens=_ASKED_BEFORE_TOKENS))

    def _prompt(self, case: Case) -> tuple[int, ...]:
        start = max(0, case.offset - _CHARACTERS_A_TOKEN * case.prompt_tokens)
        tokens = self._vocabulary.encode(self._text(case)[start : case.offset])
        tens, ones = divmod(case.number, len(self._ordinary))
        head = (self._ordinary[ones], self._ordinary[tens % len(self._ordinary)])
        return head + tokens[-max(1, case.prompt_tokens - _HEAD_TOKENS) :]

    def _text(self, case: Case) -> str:
        return self._texts[case.language, case.file]

    def _request(
        self, prompt: tuple[int, ...], case: Case, drafter: str, sampling: SamplingConfig, stop: StopRules
    ) -> DecodeRequest:
        return DecodeRequest(
            prompt=prompt,
            sampling=sampling,
            stop=stop,
            language=case.language,
            drafter=drafter,
            tokenizer_fingerprint=self._vocabulary.fingerprint,
            request_id=f"audit-{case.number}",
        )
