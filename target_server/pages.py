"""The target's HTTP side: metrics for Prometheus, health, and one page for people. Knows nothing of models or gRPC."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from target_server.board import board
from target_server.metrics import Metrics

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"
    ),
    "Cache-Control": "no-store",
}


def build_pages(metrics: Metrics, *, state: Callable[[], str]) -> Starlette:
    """The application. `state` says "loading", "serving" or "draining"; /healthz is 200 only while serving."""
    page = files("target_server").joinpath("page.html").read_text(encoding="utf-8")

    async def metrics_page(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics.registry), headers={"Content-Type": content_type})

    async def health(_request: Request) -> Response:
        now = state()
        return PlainTextResponse(now + "\n", status_code=200 if now == "serving" else 503)

    async def languages(_request: Request) -> Response:
        return JSONResponse({"state": state(), **board(metrics)}, headers={"Cache-Control": "no-store"})

    async def index(_request: Request) -> Response:
        return HTMLResponse(page, headers=PAGE_HEADERS)

    return Starlette(
        routes=[
            Route("/", index),
            Route("/metrics", metrics_page),
            Route("/healthz", health),
            Route("/languages.json", languages),
        ]
    )
