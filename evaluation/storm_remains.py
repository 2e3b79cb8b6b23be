"""What could stay behind of requests that are over, counted: in the engine, in the server, in this process."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from target_server.engine import Engine
from target_server.open_sequence import OpenSequence
from target_server.server import TargetServer

_DESCRIPTORS = Path("/dev/fd")
_PAGES = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """Counts at one moment.

    open_sessions, waiting_requests, free_slots, kv_cache_bytes: the engine's. open_calls: the server's.
    sessions_gauge: what the metrics say is open. sequences: objects in memory, open or not.
    tasks, threads, descriptors: the process's; clients included, where they run in it.
    """

    open_sessions: int
    waiting_requests: int
    free_slots: int
    kv_cache_bytes: int
    open_calls: int
    sessions_gauge: int
    sequences: int
    tasks: int
    threads: int
    descriptors: int

    def beyond(self, before: Remains) -> dict[str, int]:
        """What there is more of than before; slots that aren't free any more are lost.

        One sequence object doesn't count: gRPC may hold the last call's frames until the next one.
        """
        then, now = asdict(before), asdict(self)
        more = {name: now[name] - then[name] for name in now if name != "free_slots"}
        more["sequences"] = now["sequences"] - max(1, then["sequences"])
        more["lost_slots"] = then["free_slots"] - now["free_slots"]
        return {name: count for name, count in more.items() if count > 0}


def look(engine: Engine, server: TargetServer) -> Remains:
    """On the server's event loop. Takes a moment: all garbage is collected first."""
    gc.collect()
    gauges = [value for name, _, value in server.metrics.samples() if name == "slipstream_open_sessions"]
    return Remains(
        open_sessions=engine.open_sessions,
        waiting_requests=engine.waiting_requests,
        free_slots=engine.free_slots,
        kv_cache_bytes=engine.kv_cache_bytes,
        open_calls=server.lifecycle.open_calls,
        sessions_gauge=round(sum(gauges)),
        sequences=sum(type(each) is OpenSequence for each in gc.get_objects()),
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        descriptors=len(list(_DESCRIPTORS.iterdir())) if _DESCRIPTORS.is_dir() else 0,
    )


def resident_bytes() -> int:
    """Memory of this process that is not swapped out; 0 where the system doesn't say."""
    return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if _PAGES.exists() else 0
