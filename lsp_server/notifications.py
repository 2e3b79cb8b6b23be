"""The notifications of our own that a streaming client asks for; docs/protocol.md describes them."""

from __future__ import annotations

from typing import Any

from lsp_server.suggestion import CompletionResult, Progress

TOKENS = "slipstream/tokens"
COMPLETED = "slipstream/completed"


def tokens(progress: Progress, place: dict[str, Any]) -> dict[str, Any]:
    """Parameters of `slipstream/tokens`; `place` names the request and the document."""
    return place | {
        "position": progress.position,
        "text": progress.text,
        "pieces": [{"token": piece.token, "source": piece.source, "text": piece.text} for piece in progress.pieces],
    }


def completed(result: CompletionResult, place: dict[str, Any]) -> dict[str, Any]:
    """Parameters of `slipstream/completed`."""
    counts = result.statistics
    return place | {
        "language": result.language,
        "drafter": result.drafter,
        "mode": result.mode.value,
        "finish": None if result.finish is None else result.finish.value,
        "text": result.text,
        "tokens": list(result.tokens),
        "sources": list(result.sources),
        "statistics": {
            "promptTokens": counts.prompt_tokens,
            "cachedTokens": counts.cached_tokens,
            "draftedTokens": counts.drafted_tokens,
            "judgedTokens": counts.judged_tokens,
            "acceptedTokens": counts.accepted_tokens,
            "emittedTokens": counts.emitted_tokens,
            "verifySteps": counts.verify_steps,
        },
        "firstTokenMs": result.first_token_ms,
        "totalMs": result.total_ms,
        "seed": str(result.seed),  # over 2**53, which JSON's readers may round
        "noiseVersion": result.noise_version,
        "gate": {
            "state": None if result.gate is None else result.gate.value,
            "transitions": [
                {
                    "before": event.before.value,
                    "after": event.after.value,
                    "reason": event.reason.value,
                    "rate": event.rate,
                    "judged": event.judged,
                }
                for event in result.transitions
            ],
        },
    }
