"""Stop rules: the value. (The scanner that applies them comes with it.)"""

from __future__ import annotations

from dataclasses import dataclass

from decoding.errors import InvalidSetting

MAX_STOP_STRINGS = 64
MAX_STOP_STRING_CHARACTERS = 256
MAX_OUTPUT_TOKENS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRules:
    """What ends a completion; the earliest event wins, wherever in a block it falls.

    max_tokens: 1 to 4096 emitted tokens.
    max_lines: 0 is off; else the output ends before the line break that would start line max_lines + 1.
    token_ids: ids that end the output and are not emitted (the target's end-of-text ids always do).
    strings: at most 64, of 1 to 256 characters; the text ends before the first match. A match may straddle tokens.
    """

    max_tokens: int = 64
    max_lines: int = 0
    token_ids: tuple[int, ...] = ()
    strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.max_tokens <= MAX_OUTPUT_TOKENS:
            raise InvalidSetting("stop.max_tokens", f"must be from 1 to {MAX_OUTPUT_TOKENS}, got {self.max_tokens}")
        if self.max_lines < 0:
            raise InvalidSetting("stop.max_lines", f"must be 0 (off) or more, got {self.max_lines}")
        if len(self.strings) > MAX_STOP_STRINGS:
            raise InvalidSetting("stop.strings", f"holds {len(self.strings)}, at most {MAX_STOP_STRINGS}")
        for text in self.strings:
            if not 1 <= len(text) <= MAX_STOP_STRING_CHARACTERS:
                raise InvalidSetting(
                    "stop.strings", f"each needs 1 to {MAX_STOP_STRING_CHARACTERS} characters, got one of {len(text)}"
                )
        if len(self.token_ids) > MAX_STOP_STRINGS:
            raise InvalidSetting("stop.token_ids", f"holds {len(self.token_ids)}, at most {MAX_STOP_STRINGS}")
        if any(token < 0 for token in self.token_ids):
            raise InvalidSetting("stop.token_ids", "ids must be 0 or more")
