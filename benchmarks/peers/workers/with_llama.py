"""llama.cpp through llama-cpp-python, as a worker. Settings: model, threads, context_tokens, draft_tokens (0: none)."""

from __future__ import annotations

from itertools import islice
from typing import Any

from benchmarks.peers.answering import Asked, Emit, Generate, answer


def make(settings: dict[str, Any]) -> tuple[Generate, dict[str, Any]]:
    import llama_cpp
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    drafts = settings["draft_tokens"]
    llama = llama_cpp.Llama(
        model_path=settings["model"],
        n_ctx=settings["context_tokens"],
        n_threads=settings["threads"],
        n_threads_batch=settings["threads"],
        draft_model=LlamaPromptLookupDecoding(num_pred_tokens=drafts) if drafts else None,
        verbose=False,
    )

    def generate(asked: Asked, emit: Emit) -> None:
        llama.reset()  # else what the last prompt left would be looked through for a common beginning
        for token in islice(llama.generate(asked.prompt, temp=0.0), asked.new_tokens):
            emit([token])

    return generate, {
        "versions": {"llama-cpp-python": llama_cpp.__version__},
        "threads": settings["threads"],
        "dtype": llama.metadata.get("general.file_type", "") and "Q4_1",
        "prefix_cache": "reset before each prompt",
        "system": llama_cpp.llama_print_system_info().decode(),
    }


if __name__ == "__main__":
    answer(make)
