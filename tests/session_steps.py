"""A session to be driven by hand, without a target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from decoding.draft_length import DraftLength
from decoding.drafting import Draft
from decoding.rules import GuardRules
from decoding.sampling import SamplingConfig
from decoding.session import Mode, Propose, Session, Verify
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest, Verdict

END = 0


def opened(
    mode: Mode = Mode.EDGE,
    *,
    stop: StopRules | None = None,
    sampling: SamplingConfig | None = None,
    guard: GuardRules | None = None,
    block_rows: int = 4,
    context_length: int = 100,
    drafter: str = "lookup",
    prompt: tuple[int, ...] = (97, 98, 99),
    length: DraftLength | None = None,
) -> Session:
    """Token ids are characters; 0 ends the text."""
    return Session(
        DecodeRequest(
            prompt=prompt,
            sampling=sampling or SamplingConfig(),
            stop=stop or StopRules(max_tokens=20),
            language="python",
            drafter=drafter,
            tokenizer_fingerprint="",
            request_id="r1",
        ),
        mode=mode,
        block_rows=block_rows,
        context_length=context_length,
        token_bytes=lambda token: bytes([token]),
        end_of_text={END},
        guard=guard,
        length=length,
    )


def draft(session: Session, text: str, *, source: str = "") -> Draft:
    return Draft(
        position=session.position,
        tokens=tuple(text.encode()),
        sampling_fingerprint="",
        sources=(source,) * len(text) if source else (),
    )


def verdict(session: Session, drafted: int, accepted: int, text: str, **fields: Any) -> Verdict:
    tokens = tuple(text.encode())
    plain = Verdict(
        position=session.position,
        drafted=drafted,
        judged=min(accepted + 1, drafted),
        accepted=accepted,
        tokens=tokens,
        log_probabilities=(-1.0,) * len(tokens),
    )
    return replace(plain, **fields)


def propose(session: Session, text: str, **fields: Any) -> None:
    assert isinstance(session.next(), Propose)
    session.drafted(draft(session, text), **fields)
    assert isinstance(session.next(), Verify)


def reject(session: Session, drafted: int, **fields: Any) -> None:
    """One round in which the target takes nothing of a draft."""
    propose(session, "y" * drafted)
    session.judged(verdict(session, drafted, 0, "n"), **fields)
