"""A client in a process of its own, to be killed: python hold_stream.py ADDRESS TOKENIZER_FOLDER TOKENS.

It asks for so many tokens, 0 for none, says that its sequence is open (and, of some, that the first has come), and
never ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from grpc import aio
from serving import PROMPT, Stream, opening

from decoding.stopping import StopRules
from drafts.vocabulary import Vocabulary
from slipstream import services
from slipstream.opening import RunMessage


async def _hold(address: str, folder: Path, tokens: int) -> None:
    async with aio.insecure_channel(address) as channel:
        stream = Stream(services.target_stub(channel))
        fingerprint = Vocabulary.load(folder).fingerprint
        await stream.send(opening(PROMPT, fingerprint, stop=StopRules(max_tokens=tokens or 1)))
        await stream.answer()
        if tokens:
            await stream.send(RunMessage(limit=tokens))
            await stream.answer()
        print("open", flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_hold(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
