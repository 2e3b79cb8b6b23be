"""The editor side's settings: the [lsp] section of the configuration, and what of it an editor may override.

Reads no files and no environment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decoding.errors import InvalidSetting
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules

PLACEMENTS = ("auto", "edge", "server")
SECTION = "slipstream"  # what an editor files our settings under


@dataclass(frozen=True, slots=True, kw_only=True)
class LspSettings:
    """What the language server does, and every limit it keeps. The first three groups are the editor's to override.

    The target:
        target: its gRPC address, HOST:PORT.
        connect_timeout_ms: milliseconds to wait for a connection, 50 to 600000.

    A suggestion:
        prompt_tokens: of the prompt at most, 16 to 65536; the target's own limit bounds it.
        max_tokens: of the suggestion, 1 to 4096.
        max_lines: of the suggestion; 0 is no limit.
        temperature: 0 is greedy, else 0.001 to 100.
        seed: 0 to 2**64 - 1; with prompt, settings and target it fixes the suggestion.
        deadline_ms: milliseconds after which a suggestion is too late to show, 1 to 600000.
        stream: send `slipstream/tokens` and `slipstream/completed` notifications.

    Drafting:
        drafting: speculate at all.
        placement: where drafts are made: "edge", beside the editor, whose open documents only are seen there;
            "server", beside the target, without round trips; "auto", edge until measurements say server.
        buffer_documents: other open documents of the same language to look drafts up in, 0 to 64.
        buffer_tokens: taken of each of them at most, 0 to 1048576.

    Documents:
        private: patterns of file names, in any case, that are never read, nor shown to the target.
        max_document_bytes: a larger file gets no suggestions; UTF-8 bytes, 1 to 64 MiB.
        max_open_documents: 1 to 4096; beyond them the one not used for longest is forgotten.

    The connection:
        host, port: where to listen for TCP; port 0 takes a free one.
        max_clients: TCP connections at once, 1 to 256.
        max_message_bytes: of one message from the editor, 64 KiB to 1 GiB; a longer one is skipped.
    """

    target: str = "127.0.0.1:50151"
    connect_timeout_ms: int = 2_000
    prompt_tokens: int = 1024
    max_tokens: int = 64
    max_lines: int = 0
    temperature: float = 0.0
    seed: int = 0
    deadline_ms: int = 10_000
    stream: bool = False
    drafting: bool = True
    placement: str = "auto"
    buffer_documents: int = 4
    buffer_tokens: int = 4096
    private: tuple[str, ...] = (
        *(".env", ".env.*", "*.env", ".envrc", ".netrc", ".npmrc", ".pypirc", "credentials"),
        *("*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    )
    max_document_bytes: int = 2 * 2**20
    max_open_documents: int = 128
    host: str = "127.0.0.1"
    port: int = 50153
    max_clients: int = 8
    max_message_bytes: int = 128 * 2**20

    def __post_init__(self) -> None:
        def within(field: str, low: int, high: int) -> None:
            value = getattr(self, field)
            if not low <= value <= high:
                raise InvalidSetting(f"lsp.{field}", f"must be from {low} to {high}, got {value}")

        host, _, port = self.target.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise InvalidSetting("lsp.target", f"must be HOST:PORT, got {self.target!r}")
        if self.placement not in PLACEMENTS:
            raise InvalidSetting("lsp.placement", f"must be one of {', '.join(PLACEMENTS)}, got {self.placement!r}")
        if not self.host:
            raise InvalidSetting("lsp.host", "must not be empty")
        within("connect_timeout_ms", 50, 600_000)
        within("prompt_tokens", 16, 65_536)
        within("deadline_ms", 1, 600_000)
        within("buffer_documents", 0, 64)
        within("buffer_tokens", 0, 2**20)
        within("max_document_bytes", 1, 64 * 2**20)
        within("max_open_documents", 1, 4096)
        within("port", 0, 65_535)
        within("max_clients", 1, 256)
        within("max_message_bytes", 2**16, 2**30)
        try:
            _ = self.sampling, self.stop
        except InvalidSetting as error:
            raise InvalidSetting(f"lsp.{error.field.rpartition('.')[2]}", error.problem) from None

    @property
    def sampling(self) -> SamplingConfig:
        return SamplingConfig(temperature=self.temperature, seed=self.seed)

    @property
    def stop(self) -> StopRules:
        return StopRules(max_tokens=self.max_tokens, max_lines=self.max_lines)


# The process's own: one editor of several must not change them for the others.
_NOT_THE_EDITORS = frozenset(
    {"private", "max_document_bytes", "max_open_documents", "host", "port", "max_clients", "max_message_bytes"}
)


def overridden(settings: LspSettings, options: object) -> tuple[LspSettings, tuple[InvalidSetting, ...]]:
    """Settings as an editor's options change them, {"slipstream": {field: value}}, and what was wrong with those.

    A wrong value leaves its own field as it was, and no other.
    """
    section = options.get(SECTION) if isinstance(options, Mapping) else None
    if section is None:
        return settings, ()
    if not isinstance(section, Mapping):
        return settings, (InvalidSetting(SECTION, "must hold settings by name"),)
    problems = []
    for name, value in section.items():
        try:
            settings = dataclasses.replace(settings, **{name: _fitting(settings, name, value)})
        except InvalidSetting as problem:
            problems.append(problem)
    return settings, tuple(problems)


def _fitting(settings: LspSettings, name: object, value: object) -> Any:
    """The value, if it has the field's type. Raises InvalidSetting."""
    fields = {field.name for field in dataclasses.fields(settings)} - _NOT_THE_EDITORS
    if not isinstance(name, str) or name not in fields:
        raise InvalidSetting(
            f"lsp.{str(name)[:64]}", f"is not one of an editor's settings: {', '.join(sorted(fields))}"
        )
    kind = type(getattr(settings, name))
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise InvalidSetting(f"lsp.{name}", f"must be of type {kind.__name__}, got {type(value).__name__}")
    return value
