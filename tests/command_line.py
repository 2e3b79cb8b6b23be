"""`slipstream …` as tests run it: a process of its own, with a cache and a configuration folder of the test's."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 240


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


class CommandLine:
    """Runs in `folder`, which is empty at first; its cache is `folder/cache`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "SLIPSTREAM_CACHE": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "COLUMNS": "120",
        }

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "cli", *map(str, arguments)]

    async def __call__(self, *arguments: object) -> Outcome:
        process = await asyncio.create_subprocess_exec(
            *self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        outcome = Outcome(process.returncode or 0, out.decode(), err.decode())
        assert "Traceback" not in outcome.err
        assert "internal error" not in outcome.err
        return outcome
