"""transformers' generate with prompt lookup, as a worker. Settings: model, threads, dtype, draft_tokens."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.answering import Asked, Emit, Generate, answer


def make(settings: dict[str, Any]) -> tuple[Generate, dict[str, Any]]:
    import torch
    import transformers
    from transformers.generation.streamers import BaseStreamer

    class Pieces(BaseStreamer):
        """What `generate` yields, the prompt that it begins with left out."""

        def __init__(self, emit: Emit) -> None:
            self._emit = emit
            self._begun = False

        def put(self, value: torch.Tensor) -> None:
            if self._begun:
                self._emit(value.flatten().tolist())
            self._begun = True

        def end(self) -> None:
            """Nothing is held back."""

    torch.set_num_threads(settings["threads"])
    model = transformers.AutoModelForCausalLM.from_pretrained(settings["model"], dtype=settings["dtype"])
    model.generation_config.eos_token_id = None

    def generate(asked: Asked, emit: Emit) -> None:
        ids = torch.tensor([asked.prompt])
        with torch.inference_mode():
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=asked.new_tokens,
                do_sample=False,
                pad_token_id=0,
                prompt_lookup_num_tokens=settings["draft_tokens"],
                streamer=Pieces(emit),
            )

    return generate, {
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
        "threads": torch.get_num_threads(),
        "dtype": str(model.dtype).removeprefix("torch."),
        "prefix_cache": "none",
    }


if __name__ == "__main__":
    answer(make)
