"""The editor side's own errors, under those of `decoding`.

InvalidSetting
└── AddressUnavailable   lsp.host and lsp.port can't be listened on
"""

from __future__ import annotations

from decoding.errors import InvalidSetting


class AddressUnavailable(InvalidSetting):
    """The address is taken, or not this machine's."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__("lsp.port", f"{host}:{port} can't be listened on ({problem}); choose another with --port")
        self.host = host
        self.port = port
