"""A loaded model as the editor's side sees a target, in this process: no socket, so that only decoding is timed."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from decoding.verdict import DecodeRequest, Verifier
from drafts.vocabulary import Vocabulary
from slipstream.description import TargetDescription
from slipstream.opening import GateReport
from target_server.lifecycle import Served


class LocalTarget:
    """`lsp_server.completion.EditorTarget` over what `target_server.loading.load` answers."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def describe(self) -> TargetDescription:
        return self._served.description

    async def vocabulary(self) -> Vocabulary:
        return self._served.vocabulary

    def open(
        self, request: DecodeRequest, *, gate: GateReport | None = None, timeout_s: float | None = None
    ) -> AbstractAsyncContextManager[Verifier]:
        del gate, timeout_s  # for a server's metrics, and its deadline
        return self._served.target.open(request)
