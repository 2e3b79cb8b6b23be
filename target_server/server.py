"""The target process: ports, health, loading, draining. The only module that knows how the parts are put together.

ports open ── health NOT_SERVING, calls answered UNAVAILABLE
model loaded ── health SERVING
SIGTERM or SIGINT ── health NOT_SERVING, new calls UNAVAILABLE, open ones get `drain_s` seconds, then end
a second signal ── open ones end now
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import structlog
import uvicorn
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_reflection.v1alpha import reflection

from decoding.errors import InvalidSetting
from decoding.gate import GateBook, GateReason, GateRules, GateState
from decoding.rules import GuardRules
from drafts.languages import KNOWN_LANGUAGES, PLAINTEXT
from drafts.settings import KINDS
from drafts.speculation import DraftBudget
from slipstream import services
from slipstream.channels import server_options
from target_server.background import in_background
from target_server.calls import Calls
from target_server.completion import CompletionService
from target_server.lifecycle import Lifecycle, Served
from target_server.metrics import Metrics
from target_server.pages import build_pages
from target_server.ports import Addresses, listening
from target_server.service import TargetService
from target_server.settings import TargetSettings
from target_server.step_metrics import StepMetrics

# Clients may draft with what this server does not have: another table, say.
CLIENT_DRAFTERS = frozenset(KINDS) - {"none"}

# Beside decoding calls: health, reflection, descriptions.
SPARE_CALLS = 64

HTTP_CONNECTIONS = 64


class TargetServer:
    """One server, started once and drained once.

    load: loads the model; runs on a thread of its own. What it raises, `load` raises.
    """

    def __init__(
        self,
        settings: TargetSettings,
        gate_rules: GateRules,
        *,
        guard: GuardRules | None = None,
        budget: DraftBudget | None = None,
        load: Callable[[], Served],
    ) -> None:
        self.lifecycle = Lifecycle()
        self.metrics = Metrics(
            languages=(*KNOWN_LANGUAGES, PLAINTEXT), states=tuple(GateState), reasons=tuple(GateReason)
        )
        self._settings = settings
        self._load = load
        self._served: Served | None = None
        self._health = health_aio.HealthServicer()
        self._grpc = aio.server(
            options=_options(settings),
            maximum_concurrent_rpcs=settings.sessions + settings.queued_requests + SPARE_CALLS,
        )
        calls = Calls(
            lifecycle=self.lifecycle,
            metrics=self.metrics,
            timeout_s=settings.request_timeout_s,
            clock=time.monotonic,
            draw_bits=secrets.randbits,
        )
        services.add_target_servicer(TargetService(calls=calls, metrics=self.metrics), self._grpc)
        services.add_completion_servicer(
            CompletionService(
                calls=calls, metrics=self.metrics, gates=GateBook(gate_rules), guard=guard, budget=budget
            ),
            self._grpc,
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._grpc)
        named = (*services.SERVICE_NAMES, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        reflection.enable_server_reflection((*named, reflection.SERVICE_NAME), self._grpc)
        pages = build_pages(self.metrics, state=lambda: self.lifecycle.state)
        self._http = _Pages(
            uvicorn.Config(
                pages,
                log_config=None,
                access_log=False,
                lifespan="off",
                limit_concurrency=HTTP_CONNECTIONS,
                timeout_graceful_shutdown=1,
            )
        )
        self._http_task: asyncio.Task[None] | None = None

    async def start(self) -> Addresses:
        """Open both ports. Raises InvalidSetting where one can't be had."""
        settings = self._settings
        await self._set_health(HealthCheckResponse.NOT_SERVING)
        listening(settings.host, settings.port, "port").close()  # gRPC would only say that it failed; this says why
        http_socket = listening(settings.http_host, settings.http_port, "http_port")
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        try:
            port = self._grpc.add_insecure_port(f"{host}:{settings.port}")
        except RuntimeError as error:
            http_socket.close()
            raise InvalidSetting("target.port", f"can't listen on {host}:{settings.port}") from error
        await self._grpc.start()
        self._http_task = asyncio.create_task(self._http.serve(sockets=[http_socket]))
        http_host = f"[{settings.http_host}]" if ":" in settings.http_host else settings.http_host
        addresses = Addresses(grpc=f"{host}:{port}", http=f"{http_host}:{http_socket.getsockname()[1]}")
        structlog.get_logger().info("loading", model=settings.model, grpc=addresses.grpc, http=addresses.http)
        return addresses

    async def load(self) -> Served:
        """Load the model and serve it. Raises what loading raises."""
        served = self._served = await in_background(self._load, name="slipstream-load")
        served.listen(StepMetrics(self.metrics.registry).stepped)
        self.metrics.admit_drafters({name for _, name in served.description.drafters} | CLIENT_DRAFTERS)
        self.lifecycle.serve(served)
        await self._set_health(HealthCheckResponse.SERVING)
        return served

    async def drain(self, hurry: asyncio.Event | None = None) -> None:
        """Refuse new calls, let the open ones end for `drain_s` seconds or until `hurry`, end the rest, and stop."""
        self.lifecycle.drain()
        await self._health.enter_graceful_shutdown()
        waits: list[asyncio.Task[object]] = [asyncio.create_task(self.lifecycle.idle())]
        if hurry is not None:
            waits.append(asyncio.create_task(hurry.wait()))
        await asyncio.wait(waits, timeout=self._settings.drain_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await self._grpc.stop(None)
        self._http.should_exit = True
        if self._http_task is not None:
            await self._http_task
        if self._served is not None:
            await self._served.close()

    async def _set_health(self, status: int) -> None:
        for name in ("", *services.SERVICE_NAMES):
            await self._health.set(name, status)


async def serve(
    settings: TargetSettings,
    gate_rules: GateRules,
    *,
    guard: GuardRules | None = None,
    budget: DraftBudget | None = None,
    load: Callable[[], Served],
    ready: Callable[[Addresses], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain; `ready` is called once the model serves.

    Raises InvalidSetting where a port can't be had, and what loading raises.
    """
    log = structlog.get_logger()
    stop, hurry = asyncio.Event(), asyncio.Event()
    server = TargetServer(settings, gate_rules, guard=guard, budget=budget, load=load)
    with _signals(stop, hurry):
        addresses = await server.start()
        stopped = asyncio.create_task(stop.wait())
        loading = asyncio.create_task(server.load())
        try:
            await asyncio.wait((loading, stopped), return_when=asyncio.FIRST_COMPLETED)
            if loading.done():
                described = loading.result().description
                log.info(
                    "serving", model=described.model_id, device=described.device, dtype=described.dtype,
                    grpc=addresses.grpc, http=addresses.http,
                )  # fmt: skip
                ready(addresses)
                await stopped
            log.info("draining")
        finally:
            loading.cancel()
            stopped.cancel()
            await server.drain(hurry)
    log.info("stopped")


class _Pages(uvicorn.Server):
    """The HTTP side leaves signals to the process."""

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]
        return nullcontext()


def _options(settings: TargetSettings) -> tuple[tuple[str, int], ...]:
    return (
        *server_options(message_bytes=settings.message_bytes),
        ("grpc.keepalive_time_ms", settings.keepalive_ms),
        ("grpc.keepalive_timeout_ms", settings.keepalive_timeout_ms),
        ("grpc.http2.ping_timeout_ms", settings.keepalive_timeout_ms),  # else a minute, whatever the keepalive's
        ("grpc.http2.max_pings_without_data", 0),
    )


@contextmanager
def _signals(stop: asyncio.Event, hurry: asyncio.Event) -> Iterator[None]:
    """The first SIGTERM or SIGINT sets `stop`, the next one `hurry`."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in numbers:
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
