"""Guards for the fields of messages: which field was wrong, and whose fault it was.

What comes from a client fails as InvalidSetting, named by proto field; what comes from a target, as ContractViolation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from decoding.errors import ContractViolation, InvalidSetting

MAX_LABEL_CHARACTERS = 64


@contextmanager
def encoding(field: str) -> Iterator[None]:
    """Name the field whose value no message can hold."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidSetting(field, "holds half of a surrogate pair, which UTF-8 can't spell") from error
    except (ValueError, TypeError) as error:
        raise InvalidSetting(field, "holds a number that its wire type can't") from error


@contextmanager
def inside(message: str) -> Iterator[None]:
    """Prefix the field of an InvalidSetting with the message that holds it."""
    try:
        yield
    except InvalidSetting as error:
        raise InvalidSetting(f"{message}.{error.field}", error.problem) from error


def check(held: bool, field: str, problem: str) -> None:
    """Refuse a client's field."""
    if not held:
        raise InvalidSetting(field, problem)


def require(held: bool, violation: str) -> None:
    """Refuse a target's answer."""
    if not held:
        raise ContractViolation(violation)


def check_label(text: str, field: str) -> None:
    """A label goes to metrics and logs: short and printable."""
    check(
        len(text) <= MAX_LABEL_CHARACTERS and text.isprintable(),
        field,
        f"must be at most {MAX_LABEL_CHARACTERS} printable characters",
    )


def check_request_id(text: str, field: str) -> None:
    """A request id goes to metadata too, which holds ASCII only; "" asks the server for one."""
    check(
        len(text) <= MAX_LABEL_CHARACTERS and text.isascii() and text.isprintable(),
        field,
        f"must be 1 to {MAX_LABEL_CHARACTERS} printable ASCII characters, or empty",
    )
