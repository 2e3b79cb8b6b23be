"""What a request gives the model and the drafter to go by: the prompt's tokens, and other texts' tokens to look up.

Tokens of other files are kept, since those rarely change between keystrokes. Knows nothing of editors.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict

from decoding.prompt import Prompt, assemble
from drafts.vocabulary import Vocabulary
from lsp_server.suggestion import Buffer, CompletionRequest
from slipstream.description import TargetDescription

CHARACTERS_A_TOKEN = 12  # of a prefix that are looked at; code has three to four


def prompt_tokens(
    request: CompletionRequest, language: str, vocabulary: Vocabulary, description: TargetDescription
) -> tuple[int, ...]:
    """The prompt, within the request's budget and the target's limits, with room for the output.

    An output that may be long leaves the prompt half of the context: it seldom gets that long, and is nothing without.
    """
    room = max(description.context_length - request.stop.max_tokens, description.context_length // 2)
    budget = min(request.prompt_tokens, description.limits.prompt_tokens, room)
    shared = description.fim is not None and request.suffix
    prefix = steady_end(request.prefix, vocabulary, budget * 3 // 4 if shared else budget)
    prompt = Prompt(prefix=prefix, suffix=request.suffix, language=language, path=request.path)
    return assemble(prompt, vocabulary.encode, description.fim, budget, vocabulary.begin_of_text_id)


def steady_end(text: str, vocabulary: Vocabulary, budget: int) -> str:
    """The end of a text of more than `budget` tokens, begun at a line that stays while more is typed behind it.

    A prompt that begins a token later with each token typed could share nothing of the target's cache with the one
    before. So of the lines that leave from three quarters of the budget to all of it, the one begins whose content (and
    that of the two below) has the least checksum: another takes its place only when it falls out of reach.
    """
    window = text[-budget * CHARACTERS_A_TOKEN :]
    tokens = vocabulary.encode(window)
    if len(tokens) <= budget:
        return window
    sizes = [len(vocabulary.token_bytes(token)) for token in tokens]
    data = window.encode("utf-8", "replace")
    earliest, latest = (len(data) - sum(sizes[-count:]) for count in (budget, budget * 3 // 4))
    starts = []
    start = data.find(b"\n", max(earliest - 1, 0)) + 1
    while 0 < start <= latest:
        starts.append(start)
        start = data.find(b"\n", start) + 1
    if not starts:
        return window
    begin = min(starts, key=lambda start: zlib.crc32(b"\n".join(data[start : start + 400].split(b"\n", 3)[:3])))
    return data[begin:].decode("utf-8", "replace")


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
