"""A process that serves the toy: python serve_toy.py TOKENIZER_FOLDER PORT HTTP_PORT.

It says its addresses once it serves. Each step of a sequence waits for a byte on standard input, so that a test can
hold requests open.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from toy_serving import ToyTarget, toy_served

from cli.logs import LogSettings, configure
from decoding.errors import SlipstreamError
from decoding.gate import GateRules
from drafts.vocabulary import Vocabulary
from target_server.lifecycle import Served
from target_server.ports import Addresses
from target_server.server import serve
from target_server.settings import TargetSettings


async def _serve(folder: Path, port: int, http_port: int) -> None:
    loop = asyncio.get_running_loop()
    permits = asyncio.Semaphore(0)

    def permit() -> None:
        for _ in os.read(0, 1024):
            permits.release()

    loop.add_reader(0, permit)

    def load() -> Served:
        vocabulary = Vocabulary.load(folder)
        target = ToyTarget(vocabulary)
        target.before_step = permits.acquire
        return toy_served(vocabulary, target)

    def ready(addresses: Addresses) -> None:
        print(addresses.grpc, addresses.http, flush=True)  # noqa: T201

    await serve(TargetSettings(port=port, http_port=http_port, drain_s=20), GateRules(), load=load, ready=ready)


if __name__ == "__main__":
    configure(LogSettings(format="json"))
    try:
        asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
    except SlipstreamError as error:
        sys.exit(f"error: {error}")
