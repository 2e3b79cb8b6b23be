"""What a request gives the model and the drafter to go by: the prompt's tokens, and other texts' tokens to look up.

Tokens of other files are kept, since those rarely change between keystrokes. Knows nothing of editors.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from decoding.prompt import Prompt, assemble
from drafts.vocabulary import Vocabulary
from lsp_server.suggestion import Buffer, CompletionRequest
from slipstream.description import TargetDescription

LEAST_BUDGET = 16  # tokens of prompt, however small the target's context


def prompt_tokens(
    request: CompletionRequest, language: str, vocabulary: Vocabulary, description: TargetDescription
) -> tuple[int, ...]:
    """The prompt, within the request's budget and the target's limits, with room for the output."""
    room = description.context_length - request.stop.max_tokens
    budget = min(request.prompt_tokens, description.limits.prompt_tokens, max(room, LEAST_BUDGET))
    prompt = Prompt(prefix=request.prefix, suffix=request.suffix, language=language, path=request.path)
    return assemble(prompt, vocabulary.encode, description.fim, budget, vocabulary.begin_of_text_id)


class BufferTokens:
    """Tokens of open files, one text each: at most `limit` files, the one unused for longest goes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[str, tuple[object, tuple[int, ...]]] = OrderedDict()

    async def of(self, buffer: Buffer, vocabulary: Vocabulary, limit: int) -> tuple[int, ...]:
        """The first `limit` tokens. A text that isn't known yet is encoded beside the event loop."""
        identity = (len(buffer.text), hash(buffer.text), vocabulary.fingerprint, limit)
        kept = self._kept.get(buffer.key)
        if kept is None or kept[0] != identity:
            tokens = await asyncio.to_thread(vocabulary.encode, buffer.text)
            kept = self._kept[buffer.key] = (identity, tokens[:limit])
        self._kept.move_to_end(buffer.key)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return kept[1]
