"""The Target service: what is served, its tokenizer, and the Decode stream. Knows messages only through the wire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from decoding.drafting import Draft
from decoding.errors import InvalidSetting, LimitExceeded, Mismatch
from decoding.verdict import DecodeRequest, FinishReason, Verdict, Verifier
from slipstream import services, wire
from slipstream.fields import inside
from slipstream.opening import GateReport, OpenMessage, RunMessage
from target_server.account import Account, watched
from target_server.calls import REQUEST_ID_KEY, Calls, Context
from target_server.lifecycle import Served
from target_server.metrics import Metrics, Moved

# The messages of a call that is cancelled end as if the client had closed its side; the cancel itself is heard of a few
# milliseconds later. So an end is taken for what it seems only after so many seconds.
CANCEL_LAG_S = 0.02


class TargetService(services.TargetServicer):
    """`now` is in seconds since the epoch, to date the changes of clients' gates."""

    def __init__(self, *, calls: Calls, metrics: Metrics, now: Callable[[], float] = time.time) -> None:
        self._calls = calls
        self._metrics = metrics
        self._now = now

    async def Describe(  # noqa: N802 - the contract's name
        self, _request: services.DescribeRequestMessage, context: Context
    ) -> services.DescribeResponseMessage | None:
        async with self._calls.answering(context):
            return wire.description_message(self._calls.lifecycle.served().description)
        return None

    async def Tokenizer(self, _request: services.TokenizerRequestMessage, context: Context) -> None:  # noqa: N802
        async with self._calls.answering(context):
            for chunk in wire.tokenizer_chunks(self._calls.lifecycle.served().vocabulary.files):
                await context.write(chunk)

    async def Decode(self, messages: AsyncIterator[Any], context: Context) -> None:  # noqa: N802
        async with self._calls.accounted(context, "decode") as account:
            served = self._calls.lifecycle.served()
            account.request_id = self._calls.request_id(context)
            opening = await _opening(messages)
            account.language, account.drafter = opening.request.language, opening.request.drafter
            account.request_id = opening.request.request_id or account.request_id
            await context.send_initial_metadata(((REQUEST_ID_KEY, account.request_id),))
            if opening.gate is not None:
                self._note(opening.gate, language=account.language, drafter=account.drafter)
            sampling = opening.request.sampling
            if not opening.seed_given:
                sampling = replace(sampling, seed=self._calls.seed())
            request = replace(opening.request, sampling=sampling, request_id=account.request_id, client=context.peer())
            async with AsyncExitStack() as stack:
                with inside("open"):
                    self._check(request, served)
                    verifier = await stack.enter_async_context(watched(served.target, request, account))
                await context.write(wire.answer_message(verifier.opened))
                async for verdict in self._verdicts(messages, verifier, request, served, account):
                    await context.write(wire.answer_message(verdict))
                    if verdict.finish is not None:
                        break
                finished = await verifier.finish()
            if finished.reason is FinishReason.CLOSED:
                await asyncio.sleep(CANCEL_LAG_S)
            account.settle("OK")
            await context.write(wire.answer_message(finished))

    async def _verdicts(
        self, messages: AsyncIterator[Any], verifier: Verifier, request: DecodeRequest, served: Served, account: Account
    ) -> AsyncIterator[Verdict]:
        """The answers to what the client sends, until it closes its side."""
        block_rows = served.description.limits.block_rows
        async for message in messages:
            match wire.request_value(message):
                case Draft() as draft:
                    if len(draft.tokens) >= block_rows:
                        raise LimitExceeded("draft.tokens", limit=block_rows - 1, unit="tokens", got=len(draft.tokens))
                    yield await verifier.verify(draft)
                case RunMessage() as run:
                    await self._check_run(run, request.language, served)
                    account.drafter = account.drafter or run.drafter
                    async for verdict in verifier.run(run.limit, drafter=run.drafter):
                        yield verdict
                case OpenMessage():
                    raise InvalidSetting("open", "must be the first message only")

    def _check(self, request: DecodeRequest, served: Served) -> None:
        """What can be refused before a sequence is opened; ids are checked by the sequence itself."""
        limit = served.description.limits.prompt_tokens
        if len(request.prompt) > limit:
            raise LimitExceeded("open.prompt", limit=limit, unit="tokens", got=len(request.prompt))
        expected = served.description.tokenizer_fingerprint
        if request.tokenizer_fingerprint != expected:
            raise Mismatch(
                "tokenizer fingerprint",
                expected=expected,
                got=request.tokenizer_fingerprint or "none",
                remedy="fetch the target's tokenizer by Target.Tokenizer and encode the prompt with it",
            )

    async def _check_run(self, run: RunMessage, language: str, served: Served) -> None:
        # Off the loop: it may read a table. The engine then finds it in memory.
        if run.drafter and await asyncio.to_thread(served.drafters.named, language, run.drafter) is None:
            names = sorted(name for of, name in served.description.drafters if of == language)
            raise InvalidSetting(
                "run.drafter", f"must be empty or one of this language's: {', '.join(names) or 'none'}"
            )

    def _note(self, report: GateReport, *, language: str, drafter: str) -> None:
        """Count a client's gate."""
        self._metrics.gate_state(language, drafter, side="client", state=report.state)
        for change in report.transitions:
            self._metrics.gate_moved(
                Moved(
                    at=self._now(),
                    side="client",
                    language=language,
                    drafter=drafter,
                    before=change.before,
                    after=change.after,
                    reason=change.reason,
                )
            )


async def _opening(messages: AsyncIterator[Any]) -> OpenMessage:
    async for message in messages:
        value = wire.request_value(message)
        if isinstance(value, OpenMessage):
            return value
        break
    else:
        await asyncio.sleep(CANCEL_LAG_S)
    raise InvalidSetting("open", "must be the first message")
