"""What ends a completion, and the one scanner that finds it, run over the same tokens at both ends of the wire.

Knows nothing of logits, positions or drafts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from decoding.detokenizer import Detokenizer
from decoding.errors import ContractViolation, InvalidSetting

MAX_STOP_STRINGS = 64
MAX_STOP_STRING_CHARACTERS = 256
MAX_OUTPUT_TOKENS = 4096

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


class FinishReason(StrEnum):
    """Why a sequence ended."""

    END_OF_TEXT = "end_of_text"
    STOP_TOKEN = "stop_token"  # noqa: S105 - no password
    STOP_STRING = "stop_string"
    LINE_LIMIT = "line_limit"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - no password
    CONTEXT_FULL = "context_full"
    CLOSED = "closed"  # the client ended the stream before any rule did


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What one token did.

    text: newly safe to show; may hold characters of earlier tokens, and lack this one's.
    finish: set when this token ends the output.
    emitted: False for end-of-text and stop ids: they are consumed, but are no part of the output.
    """

    text: str
    finish: FinishReason | None = None
    emitted: bool = True


class StopScanner:
    r"""Applies stop rules to one output, a token at a time.

    Text is held back only while it may still become a stop string: at most 255 characters. After each token the
    event that starts earliest in the text wins, whatever completed first within the token; the text ends where that
    event starts, and the token that completed it still counts as emitted. A stop string wins over a line break at
    the same place, and both over the token limit. Line breaks are \n, \r\n and a lone \r.

    end_of_text: ids that end any output of the target.
    """

    def __init__(self, rules: StopRules, *, token_bytes: Callable[[int], bytes], end_of_text: Collection[int]) -> None:
        self._rules = rules
        self._detokenizer = Detokenizer(token_bytes)
        self._end_of_text = frozenset(end_of_text)
        self._stop_ids = frozenset(rules.token_ids)
        self._first_characters = frozenset(text[0] for text in rules.strings)
        self._longest = max((len(text) for text in rules.strings), default=0)
        self._held = ""
        self._lines = 1
        self._after_return = False
        self._emitted_tokens = 0
        self._finish: FinishReason | None = None

    @property
    def finish(self) -> FinishReason | None:
        """Why the output ended, None while it goes on."""
        return self._finish

    @property
    def emitted_tokens(self) -> int:
        return self._emitted_tokens

    def push(self, token: int) -> Scan:
        """Take the next token. Raises ContractViolation after a finish."""
        if self._finish is not None:
            raise ContractViolation("a token came after the output had ended")
        if token in self._end_of_text or token in self._stop_ids:
            reason = FinishReason.END_OF_TEXT if token in self._end_of_text else FinishReason.STOP_TOKEN
            text = self.flush(reason)
            return Scan(text=text, finish=self._finish, emitted=False)
        self._emitted_tokens += 1
        text = self._advance(self._detokenizer.push(token))
        if self._finish is None and self._emitted_tokens >= self._rules.max_tokens:
            text += self.flush(FinishReason.TOKEN_LIMIT)
        return Scan(text=text, finish=self._finish)

    def flush(self, reason: FinishReason) -> str:
        """End the output for a reason found elsewhere; return what was held back, "" if it had ended already."""
        if self._finish is not None:
            return ""
        text = self._advance(self._detokenizer.flush())
        if self._finish is None:
            text, self._held = text + self._held, ""
            self._finish = reason
        return text

    def _advance(self, text: str) -> str:
        """Add text, look for the earliest event, and return what is safe to show."""
        window = self._held + text
        matches = [place for place in map(window.find, self._rules.strings) if place >= 0]
        line_break = self._line_limit(text)
        if line_break is not None:
            line_break += len(self._held)
        if matches and (line_break is None or min(matches) <= line_break):
            return self._end(FinishReason.STOP_STRING, window[: min(matches)])
        if line_break is not None:
            return self._end(FinishReason.LINE_LIMIT, window[:line_break])
        safe = self._safe_length(window)
        self._held = window[safe:]
        return window[:safe]

    def _end(self, reason: FinishReason, text: str) -> str:
        self._finish = reason
        self._held = ""
        return text

    def _line_limit(self, text: str) -> int | None:
        """Index in new text of the break that would start a line too many; counts the breaks before it."""
        if not self._rules.max_lines or not text:
            return None
        # A break split between tokens was counted at its \r.
        start = 1 if self._after_return and text[0] == "\n" else 0
        self._after_return = text[-1] == "\r"
        for found in _LINE_BREAK.finditer(text, start):
            if self._lines == self._rules.max_lines:
                return found.start()
            self._lines += 1
        return None

    def _safe_length(self, window: str) -> int:
        """How much of the window can't be the start of a stop string."""
        for start in range(max(0, len(window) - self._longest + 1), len(window)):
            if window[start] in self._first_characters:
                tail = window[start:]
                if any(text.startswith(tail) for text in self._rules.strings):
                    return start
        return len(window)
