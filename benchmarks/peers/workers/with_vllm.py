"""vLLM's CPU build with n-gram speculation, in process, as a worker.

Settings: model, threads, dtype, context_tokens, draft_tokens. The main guard matters: vLLM may start processes anew.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.peers.answering import Asked, Emit, Generate, answer


def make(settings: dict[str, Any]) -> tuple[Generate, dict[str, Any]]:
    threads = settings["threads"]
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # a process between would add to its times
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # What vLLM says to worker processes of its own about Intel's OpenMP; in process, nobody would say it.
        "OMP_NUM_THREADS": str(threads),
        "KMP_AFFINITY": f"granularity=fine,explicit,proclist=[{','.join(map(str, range(threads)))}]",
        "KMP_BLOCKTIME": "5",
        "KMP_TPAUSE": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    import torch
    import vllm
    from vllm.sampling_params import RequestOutputKind

    engine = vllm.LLM(
        model=settings["model"],
        dtype=settings["dtype"],
        max_model_len=settings["context_tokens"],
        max_num_seqs=1,
        enable_prefix_caching=False,
        speculative_config={
            "method": "ngram",
            "num_speculative_tokens": settings["draft_tokens"],
            "prompt_lookup_max": 4,
            "prompt_lookup_min": 2,
        },
    ).llm_engine
    numbers = count()

    def generate(asked: Asked, emit: Emit) -> None:
        sampling = vllm.SamplingParams(
            temperature=0.0,
            max_tokens=asked.new_tokens,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        engine.add_request(str(next(numbers)), vllm.TokensPrompt(prompt_token_ids=asked.prompt), sampling)
        while engine.has_unfinished_requests():
            for output in engine.step():
                if tokens := list(output.outputs[0].token_ids):
                    emit(tokens)

    return generate, {
        "versions": {"vllm": vllm.__version__, "torch": torch.__version__},
        "threads": torch.get_num_threads(),
        "dtype": str(engine.model_config.dtype).removeprefix("torch."),
        "prefix_cache": "off",
        "preloaded": [Path(library).name for library in os.environ.get("LD_PRELOAD", "").split(":")],
    }


if __name__ == "__main__":
    answer(make)
