"""The completion services of one process, one a target, shared by all its editors; made when first asked for."""

from __future__ import annotations

from pathlib import Path

from decoding.errors import LimitExceeded
from decoding.rules import GateRules, GuardRules
from drafts.settings import DraftSettings
from drafts.speculation import DraftBudget
from lsp_server.completion import CompletionService
from lsp_server.connection import ConnectionSettings
from lsp_server.settings import LspSettings
from lsp_server.target_client import TargetClient

MAX_TARGETS = 8


class Services:
    """Called with settings, it gives the service that completes under them. Lives on one event loop; close it."""

    def __init__(
        self,
        *,
        drafts: DraftSettings,
        gate: GateRules,
        guard: GuardRules,
        budget: DraftBudget,
        cache_folder: Path,
    ) -> None:
        self._drafts = drafts
        self._gate = gate
        self._guard = guard
        self._budget = budget
        self._cache_folder = cache_folder
        self._made: dict[tuple[str, int], tuple[TargetClient, CompletionService]] = {}

    def __call__(self, settings: LspSettings) -> CompletionService:
        """Raises LimitExceeded where editors name more targets than `MAX_TARGETS`."""
        key = (settings.target, settings.connect_timeout_ms)
        if key not in self._made:
            if len(self._made) >= MAX_TARGETS:
                raise LimitExceeded("lsp.target", limit=MAX_TARGETS, unit="targets in one process")
            connection = ConnectionSettings(connect_timeout_s=settings.connect_timeout_ms / 1000)
            client = TargetClient(settings.target, cache_folder=self._cache_folder, settings=connection)
            self._made[key] = (
                client,
                CompletionService(client, drafts=self._drafts, gate=self._gate, guard=self._guard, budget=self._budget),
            )
        return self._made[key][1]

    async def close(self) -> None:
        for client, _ in self._made.values():
            await client.close()
