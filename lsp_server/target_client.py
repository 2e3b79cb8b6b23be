"""The target over gRPC: a `decoding.verdict.Target`, and the other calls of the contract.

State: the connection's is in `lsp_server.connection`, a stream's in `lsp_server.remote_sequence`; here only what the
target said of itself, and its vocabulary. Knows nothing of editors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from decoding.errors import ContractViolation, DeadlineExceeded, Mismatch, StalePosition, TargetUnavailable
from decoding.verdict import DecodeRequest, Finished, Verifier
from drafts.vocabulary import Vocabulary
from lsp_server.connection import Connection, ConnectionSettings
from lsp_server.decode_stream import DecodeStream
from lsp_server.remote_sequence import RemoteSequence
from lsp_server.tokenizer_cache import TokenizerCache
from slipstream import wire
from slipstream.completion import CompletionDelta, CompletionRequest, CompletionStarted
from slipstream.description import TargetDescription
from slipstream.fields import check_request_id
from slipstream.opening import GateReport, OpenMessage
from slipstream.services import CompleteResponseMessage, completion_stub, target_stub
from slipstream.statuses import translated

REQUEST_ID_KEY = "x-request-id"


class TargetClient:
    """One target at `address` (HOST:PORT), shared by all requests of a process; connects when first used.

    cache_folder: tokenizers are kept in its `tokenizers`.

    Every method raises TargetUnavailable where the target can't be reached, and else what the target raised.
    """

    def __init__(self, address: str, *, cache_folder: Path, settings: ConnectionSettings | None = None) -> None:
        self._settings = settings or ConnectionSettings()
        self._connection = Connection(address, self._settings)
        self._tokenizers = TokenizerCache(cache_folder / "tokenizers", kept=self._settings.kept_tokenizers)
        self._description: tuple[int, TargetDescription] | None = None
        self._vocabulary: Vocabulary | None = None
        self._fetching = asyncio.Lock()

    async def describe(self) -> TargetDescription:
        """What is served; asked again once the connection was lost, or the target found a mismatch."""
        losses = self._connection.losses
        if self._description is None or self._description[0] != losses:
            timeout_s = self._settings.connect_timeout_s
            call = target_stub(self._connection.channel()).Describe(wire.describe_request(), timeout=timeout_s)
            try:
                with translated():
                    answer = await call
            except DeadlineExceeded as error:
                raise TargetUnavailable(f"the target doesn't answer within {timeout_s} s") from error
            self._description = (losses, wire.description_value(answer))
        return self._description[1]

    async def vocabulary(self) -> Vocabulary:
        """The target's tokenizer, from disk or fetched. Raises Mismatch where it isn't the one that was announced."""
        fingerprint = (await self.describe()).tokenizer_fingerprint
        async with self._fetching:  # once, however many ask
            if self._vocabulary is None or self._vocabulary.fingerprint != fingerprint:
                kept = await asyncio.to_thread(self._tokenizers.load, fingerprint)
                self._vocabulary = kept or await self._fetch(fingerprint)
            return self._vocabulary

    @asynccontextmanager
    async def open(
        self, request: DecodeRequest, *, timeout_s: float | None = None, gate: GateReport | None = None
    ) -> AsyncIterator[Verifier]:
        """Open a sequence; leaving the context ends its call and frees it at the target.

        timeout_s: seconds for the whole sequence, after which its methods raise DeadlineExceeded; None is no deadline.
        gate: the state of this client's gate, for the target's metrics.
        """
        stream = DecodeStream(
            target_stub(self._connection.channel()), timeout_s=timeout_s, metadata=_metadata(request.request_id)
        )
        try:
            yield await RemoteSequence.open(stream, OpenMessage(request=request, gate=gate))
        except StalePosition:
            raise
        except Mismatch:
            self._description = None  # the target may have been replaced behind the same connection
            raise
        finally:
            stream.end()

    async def complete(
        self, request: CompletionRequest, *, timeout_s: float | None = None
    ) -> AsyncGenerator[CompletionStarted | CompletionDelta | Finished, None]:
        """Complete text at the target: started, then deltas, then finished. Leaving the iteration ends the call."""
        call = completion_stub(self._connection.channel()).Complete(
            wire.completion_request_message(request), timeout=timeout_s, metadata=_metadata(request.request_id)
        )
        due: tuple[type, ...] = (CompletionStarted,)
        try:
            while True:
                with translated():
                    message = await call.read()
                if not isinstance(message, CompleteResponseMessage):
                    break
                answer = wire.completion_answer_value(message)
                if not isinstance(answer, due):
                    raise ContractViolation(f"the target sent {type(answer).__name__} out of order")
                due = () if isinstance(answer, Finished) else (CompletionDelta, Finished)
                yield answer
            if due:
                raise ContractViolation("the target ended the stream early")
        finally:
            call.cancel()

    async def close(self) -> None:
        """End every call. For good."""
        await self._connection.close()

    async def _fetch(self, fingerprint: str) -> Vocabulary:
        assembly = wire.FileAssembly(self._settings.tokenizer_bytes)
        call = target_stub(self._connection.channel()).Tokenizer(
            wire.tokenizer_request(), timeout=self._settings.tokenizer_timeout_s
        )
        try:
            with translated():
                async for chunk in call:
                    assembly.push(chunk)
        finally:
            call.cancel()
        vocabulary = await asyncio.to_thread(Vocabulary.from_files, assembly.files())
        if vocabulary.fingerprint != fingerprint:
            parts = ", ".join(f"{name} {digest[:8]}" for name, digest in vocabulary.fingerprint_parts().items())
            raise Mismatch(
                "tokenizer fingerprint",
                expected=fingerprint,
                got=f"{vocabulary.fingerprint} ({parts})",
                remedy="the target announces another tokenizer than it sends: restart it, or its versions differ",
            )
        await asyncio.to_thread(self._tokenizers.store, vocabulary)
        return vocabulary


def _metadata(request_id: str) -> tuple[tuple[str, str], ...]:
    check_request_id(request_id, "request_id")
    return ((REQUEST_ID_KEY, request_id),) if request_id else ()
