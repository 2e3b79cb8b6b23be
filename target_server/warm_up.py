"""From a loaded model to one that may serve: its cache sized, its arithmetic checked, its step shapes found and tried.

Knows nothing of requests.
"""

from __future__ import annotations

import os
import time

import structlog
import torch

from target_server.errors import UnsupportedModel
from target_server.kv_cache import capacity_for, slots_within
from target_server.loader import LoadedModel
from target_server.model import Model, StepShape
from target_server.parity import Parity, agreeing, blocks_agree, check_parity
from target_server.probe import Probe, probing
from target_server.products import ProductBits
from target_server.settings import TargetSettings
from target_server.shapes import Shapes, canonical, climb, rungs
from target_server.thread_count import choose_threads, usable_threads

log = structlog.get_logger()


def build_model(loaded: LoadedModel, settings: TargetSettings, *, context_tokens: int) -> Model:
    """The model over a KV cache with a slot a session, and one for each retained prefix that the budget has room for.

    Raises BudgetExceeded where not even the sessions' slots fit.
    """
    capacity = capacity_for(context_tokens, max(settings.block_rows, settings.prefill_rows))
    room = slots_within(settings.kv_cache_bytes, loaded.layers, capacity=capacity, dtype=loaded.hf.dtype)
    model = Model(
        loaded.hf,
        loaded.layers,
        shape=StepShape(
            block_rows=settings.block_rows,
            prefill_rows=settings.prefill_rows,
            context_tokens=context_tokens,
            slots=max(settings.sessions, min(settings.sessions + settings.retained_prefixes, room)),
        ),
        kv_cache_bytes=settings.kv_cache_bytes,
    )
    tile = settings.tile_sequences or (1 if model.device.type == "cpu" else settings.sessions)
    model.shapes = canonical(decode_rows=tile * settings.block_rows, prefill_rows=settings.prefill_rows)
    return model


def warm_up(model: Model, loaded: LoadedModel, settings: TargetSettings, *, vocabulary_size: int) -> Parity:
    """Run the first steps on the thread that will run them all; sets the shapes that later ones may have.

    Where the number of query rows matters on this device, blocks are padded to their full rows; where only the padded
    length matters, every step reads whole slots from then on. Raises UnsupportedModel where parity can't be had and
    `settings.parity` is "strict".
    """
    if not settings.threads and model.device.type == "cpu":
        log.info("threads", chosen=_settle_threads(model))
    products = ProductBits(loaded.hf)
    model.shapes = _base(products, model.shapes, most=settings.step_rows)
    with probing(model, vocabulary_size=vocabulary_size) as probe:
        found = _settle_padding(model, probe)
        if not found.holds:
            differing = ", ".join(found.broken())
            log.error("rows depend on their neighbours: speculation may change outputs", differing=differing)
            if settings.parity == "strict":
                raise UnsupportedModel(
                    loaded.name,
                    f"a token's logits depend on how it is verified ({differing}); "
                    'speculative output would differ from plain; target.parity = "fast" serves it all the same',
                )
        agree = agreeing(probe, _candidates(products, model.shapes, most=settings.step_rows))
    model.shapes = agree if settings.parity == "strict" else _any_shapes(agree, settings.step_rows)
    log.info("step shapes", parity=settings.parity, decode_rows=model.shapes.decode, prefill_rows=model.shapes.prefill)
    return found


def _settle_padding(model: Model, probe: Probe) -> Parity:
    """Pad no more than parity asks for; what was found at last."""
    model.pads_blocks = False
    model.pads_blocks = not blocks_agree(probe)
    found = check_parity(probe)
    if not found.holds and not model.pads_blocks:
        model.pads_blocks = True
        found = check_parity(probe)
    if not found.padding:
        model.pads_to_capacity = True
        probe.cache_chunks()
        found = check_parity(probe)
    return found


def _base(products: ProductBits, wanted: Shapes, *, most: int) -> Shapes:
    """The least counts that hold a tile and a chunk and at which products don't depend on the place, if there are any.

    Others are compared with these, so both are of one kind where they can be.
    """
    (tile,), (chunk,) = wanted.decode, wanted.prefill
    decode = next(filter(products.uniform, range(tile, most + 1)), tile)
    holding = range(chunk, most + 1)
    prefill = next((count for count in holding if products.agree(count, decode)), None)
    return canonical(
        decode_rows=decode,
        prefill_rows=prefill or next(filter(products.uniform, holding), chunk),
    )


def _candidates(products: ProductBits, base: Shapes, *, most: int) -> Shapes:
    """Counts worth whole steps."""
    (decode,), (prefill,) = base.decode, base.prefill
    return Shapes(
        decode=climb(lambda count: products.agree(count, decode), most=most),
        prefill=climb(lambda count: products.agree(count, prefill), most=most),
    )


def _settle_threads(model: Model) -> int:
    """Have this thread's steps run on as many threads as are of use: one a core, half of them, or one."""
    most = usable_threads(os.environ, os.cpu_count())  # not torch's own count: that is what an engine before has set

    def measure(count: int) -> float:
        torch.set_num_threads(count)
        start = time.perf_counter()
        model.decode(0, 0, [0] * model.shape.block_rows)
        return time.perf_counter() - start

    chosen = choose_threads(measure, (1, max(1, most // 2), most))
    torch.set_num_threads(chosen)
    return chosen


def _any_shapes(agree: Shapes, step_rows: int) -> Shapes:
    """Whatever is near enough, whether it agrees or not."""
    counts = rungs(step_rows)
    return Shapes(decode=tuple(sorted({*counts, *agree.decode})), prefill=tuple(sorted({*counts, *agree.prefill})))
