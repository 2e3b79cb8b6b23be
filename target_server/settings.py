"""The target's settings: the [target] section of the configuration. Reads no files and no environment."""

from __future__ import annotations

import re
from dataclasses import dataclass

from decoding.errors import InvalidSetting

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """What a target serves, where, and every limit it keeps.

    The model:
        model: "default", a folder, or a hub id.
        revision: branch, tag or commit of a hub id; "" is the hub's main branch.
        dtype: of weights and activations; "auto" is bfloat16 where the device multiplies it natively, else float32.
        device: "auto" is the first accelerator, else the CPU.
        threads: CPU threads of the model; 0 measures at every start what is fastest.

    Where it listens (port 0 takes a free one):
        host, port: gRPC.
        http_host, http_port: metrics and the status page.
        keepalive_ms: milliseconds of silence after which a client is pinged, 1000 or more.
        keepalive_timeout_ms: milliseconds after which one that answers no ping has gone, and its sequences are freed.

    What a request may take:
        context_tokens: prompt and output together, 16 or more; the model's own context length bounds it.
        prompt_tokens: of one prompt, under context_tokens.
        message_bytes: of one gRPC message, 64 KiB to 64 MiB.
        request_timeout_s: seconds a sequence may stay open, whatever the client's deadline.

    What all of them may take:
        sessions: sequences open at once; each owns a slot of the KV cache.
        retained_prefixes: further slots, as far as the cache's budget has room, so that prompts outlive their requests
            and the next keystroke need not compute them again; 0 retains nothing.
        queued_requests: that may wait for a slot; 0 refuses at once when all are taken.
        queue_wait_ms: milliseconds a request waits for a slot before it is refused.
        kv_cache_bytes: hard budget of the KV cache; a server whose slots don't fit refuses to start.
        drain_s: seconds that open sequences get to end in, on SIGTERM.

    How steps are made:
        prefill_budget_ms: milliseconds by which chunks of others' prompts may hold up a block that waits.
        gather_ms: milliseconds that a step waits at most for sequences that will be back in a moment.
        block_rows: rows of a block, 2 to 64; the longest draft is one less.
        prefill_rows: rows of a prompt's chunk, 8 to 1024; prompts are reused in multiples of it.
        step_rows: rows of a step, at least those of a block and of a chunk.
        tile_sequences: where no other row counts agree on this device, blocks of so many sequences make up every
            step; 0 is 1 on the CPU and `sessions` elsewhere.
        cuda_graphs: on CUDA, replay decode steps from graphs where that changes no bit. Never run on a device so far.
        parity: "strict" uses the row counts that were found to give the same bits, so that no output depends on
            others' requests, and refuses to start on a device whose rows depend on their neighbours; "fast" uses all,
            so that outputs may depend on the load.
    block_rows, prefill_rows and a tile fix the last bits of the arithmetic: outputs are equal only under equal ones.
    """

    model: str = "default"
    revision: str = ""
    dtype: str = "auto"
    device: str = "auto"
    threads: int = 0
    host: str = "127.0.0.1"
    port: int = 50151
    http_host: str = "127.0.0.1"
    http_port: int = 50152
    keepalive_ms: int = 20_000
    keepalive_timeout_ms: int = 10_000
    context_tokens: int = 2048
    prompt_tokens: int = 1792
    message_bytes: int = 4 * 2**20
    request_timeout_s: float = 120.0
    sessions: int = 8
    retained_prefixes: int = 8
    queued_requests: int = 16
    queue_wait_ms: int = 10_000
    kv_cache_bytes: int = 2 * 2**30
    drain_s: float = 10.0
    prefill_budget_ms: float = 150.0
    gather_ms: float = 20.0
    block_rows: int = 8
    prefill_rows: int = 64
    step_rows: int = 128
    tile_sequences: int = 0
    cuda_graphs: bool = False
    parity: str = "strict"

    def __post_init__(self) -> None:
        def within(field: str, low: float, high: float) -> None:
            value = getattr(self, field)
            if not low <= value <= high:
                raise InvalidSetting(f"target.{field}", f"must be from {low} to {high}, got {value}")

        def one_of(field: str, choices: tuple[str, ...]) -> None:
            value = getattr(self, field)
            if value not in choices:
                raise InvalidSetting(f"target.{field}", f"must be one of {', '.join(choices)}, got {value!r}")

        for field in ("model", "host", "http_host"):
            if not getattr(self, field):
                raise InvalidSetting(f"target.{field}", "must not be empty")
        one_of("dtype", DTYPES)
        one_of("parity", ("strict", "fast"))
        if not DEVICE.fullmatch(self.device):
            raise InvalidSetting("target.device", f"must be auto, cpu, cuda or cuda:N, got {self.device!r}")
        within("threads", 0, 1024)
        within("port", 0, 65535)
        within("http_port", 0, 65535)
        within("keepalive_ms", 1000, 3_600_000)
        within("keepalive_timeout_ms", 100, 3_600_000)
        within("context_tokens", 16, 2**20)
        within("prompt_tokens", 1, self.context_tokens - 1)
        within("message_bytes", 2**16, 2**26)
        within("request_timeout_s", 0.001, 86_400)
        within("sessions", 1, 1024)
        within("queued_requests", 0, 65_536)
        within("queue_wait_ms", 0, 3_600_000)
        within("kv_cache_bytes", 1, 2**50)
        within("drain_s", 0, 3600)
        within("block_rows", 2, 64)
        within("prefill_rows", 8, 1024)
        within("step_rows", max(self.block_rows, self.prefill_rows), 1024)
        within("tile_sequences", 0, 1024)
        within("retained_prefixes", 0, 65_536)
        within("prefill_budget_ms", 0, 60_000)
        within("gather_ms", 0, 1000)
