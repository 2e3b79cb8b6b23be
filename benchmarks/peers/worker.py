"""One engine in a process of its own that stays loaded, and sleeps while others are measured.

Between prompts the process is stopped by signal, so that threads which spin while they wait take nothing from the one
that runs, and each engine keeps its own way of waiting while it works. POSIX only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any, Self

from benchmarks.peers.environments import complaint
from benchmarks.peers.prompts import Prompt
from benchmarks.peers.results import Timing
from evaluation.errors import EvaluationFailed

ROOT = Path(__file__).parents[2]
LOAD_S = 900.0  # vLLM compiles at its first start
ANSWER_S = 600.0
END_S = 20.0


class Worker:
    """Context manager. facts: what the engine says of itself. Raises EvaluationFailed where it ends or is too slow."""

    def __init__(
        self, python: Path, module: str, settings: dict[str, Any], *, environ: Mapping[str, str], log: Path
    ) -> None:
        self._log = log
        command = [str(python), "-m", f"benchmarks.peers.workers.{module}", json.dumps(settings)]
        with log.open("w") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own modules
                command,
                cwd=ROOT,
                env={**os.environ, **environ},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("a pipe was asked for")
        self._questions, self._answers = self._process.stdin, self._process.stdout
        try:
            self.facts: dict[str, Any] = self._read(LOAD_S)
        except BaseException:
            self.close()
            raise
        self._process.send_signal(signal.SIGSTOP)

    def ask(self, prompt: Prompt, *, new_tokens: int) -> Timing:
        """Wake the engine, have it complete one prompt, and stop it again."""
        asked = {"prompt": prompt.tokens, "new_tokens": new_tokens, "language": prompt.language}
        self._process.send_signal(signal.SIGCONT)
        with suppress(BrokenPipeError):  # reading says why
            print(json.dumps(asked), file=self._questions, flush=True)
        answer = self._read(ANSWER_S)
        self._process.send_signal(signal.SIGSTOP)
        return Timing(
            prompt=prompt.name,
            prompt_tokens=len(prompt.tokens),
            first_s=answer["first_s"],
            total_s=answer["total_s"],
            first_tokens=answer["first_tokens"],
            tokens=tuple(answer["tokens"]),
        )

    def close(self) -> None:
        """End the process; kill it where it doesn't end by itself."""
        self._process.send_signal(signal.SIGCONT)
        with suppress(BrokenPipeError):
            self._questions.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, seconds: float) -> dict[str, Any]:
        """The next line. A process that takes longer is killed, which ends the wait."""
        alarm = Timer(seconds, self._process.kill)
        alarm.start()
        try:
            line = self._answers.readline()
            late = not alarm.is_alive()
        finally:
            alarm.cancel()
        if not line:
            problem = f"its process took over {seconds:g} s" if late else "its process ended"
            raise EvaluationFailed(f"{problem}: {complaint(self._log)} ({self._log.name})")
        read: dict[str, Any] = json.loads(line)
        return read
