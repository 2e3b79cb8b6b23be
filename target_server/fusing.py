"""A model in fewer operations: attention's projections as one product, root-mean-square norms as one call.

A model's own code stays as it is; only leaves are replaced, where their structure is recognised, and the logits are
compared afterwards. Knows nothing of packing, attention or caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

# Children that attention feeds the same tensor. The two projections of a gated feed-forward layer are left alone: they
# are large, and joining them gained nothing in trials.
SHARED_INPUT = ("q_proj", "k_proj", "v_proj")
NORM_TOLERANCE = 8  # of a norm's outputs, in the last place of its dtype
TOLERANCE, COARSE_TOLERANCE = 1e-5, 5e-2  # of all logits together, relative; the coarse one for half precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """How many products stand for several, and how many norms are one operation. Both 0: the model is as it was."""

    products: int
    norms: int


class JointLinear(nn.Module):
    """Linear layers over one input as one product: the first that is called computes, the others take their parts.

    What is called with another tensor, or again, computes anew: so each is the function that it replaces, however
    it is called, as long as nobody writes into a tensor between the calls.
    """

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        first = layers[0]
        self._sizes = [layer.out_features for layer in layers]
        self.linear = nn.Linear(first.in_features, sum(self._sizes), bias=first.bias is not None, device="meta")
        self.linear.weight = _joined([layer.weight for layer in layers])
        if first.bias is not None:
            self.linear.bias = _joined([layer.bias for layer in layers])
        self._given: Tensor | None = None
        self._parts: list[Tensor | None] = [None] * len(layers)

    def part(self, index: int, rows: Tensor) -> Tensor:
        """What layer `index` answers to these rows."""
        part = self._parts[index]
        if part is None or rows is not self._given:
            self._given = rows
            parts = torch.split_with_sizes(self.linear(rows), self._sizes, -1)
            self._parts = list(parts)
            part = parts[index]
        self._parts[index] = None
        if not any(waiting is not None for waiting in self._parts):
            self._given = None
        return part


class JointPart(nn.Module):
    """One of the layers of a JointLinear, in the place of the layer that it was."""

    def __init__(self, joint: JointLinear, index: int, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features = layer.in_features
        self.out_features = layer.out_features
        self._joint = joint
        self._index = index

    def forward(self, rows: Tensor) -> Tensor:
        """[…, in_features] -> […, out_features]"""
        return self._joint.part(self._index, rows)


class RootMeanSquareNorm(nn.Module):
    """A root-mean-square norm as one call of torch, not seven."""

    def __init__(self, weight: Tensor, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self._epsilon = epsilon

    def forward(self, rows: Tensor) -> Tensor:
        """[…, width] -> […, width]"""
        return functional.rms_norm(rows, self.weight.shape, self.weight, self._epsilon)


def fuse(model: nn.Module, logits: Callable[[], Tensor]) -> Fused:
    """Replace what can be fused, in place; everything is put back where the model's logits are then others.

    logits: runs the model on a few tokens. Weights are joined, not copied: until the layers that were replaced are
    packed or dropped, no memory is needed for them.
    """
    with torch.inference_mode():
        expected = logits()
    with torch.no_grad():
        products, norms = _join_products(model), _replace_norms(model)
    with torch.inference_mode():
        difference = float((logits() - expected).double().norm() / expected.double().norm())
    if not difference <= (TOLERANCE if expected.dtype == torch.float32 else COARSE_TOLERANCE):
        for parent, name, original in (*products, *norms):
            setattr(parent, name, original)
        return Fused(products=0, norms=0)
    return Fused(products=len({id(parent) for parent, _, _ in products}), norms=len(norms))


Replaced = list[tuple[nn.Module, str, nn.Module]]


def _join_products(model: nn.Module) -> Replaced:
    replaced: Replaced = []
    for parent in list(model.modules()):
        layers = [layer for name in SHARED_INPUT if type(layer := getattr(parent, name, None)) is nn.Linear]
        if len(layers) < len(SHARED_INPUT) or not _alike(layers):
            continue
        joint = JointLinear(layers)
        for index, (name, layer) in enumerate(zip(SHARED_INPUT, layers, strict=True)):
            setattr(parent, name, JointPart(joint, index, layer))
            replaced.append((parent, name, layer))
    return replaced


def _alike(layers: Sequence[nn.Linear]) -> bool:
    def kind(layer: nn.Linear) -> tuple[object, ...]:
        return layer.in_features, layer.bias is None, layer.weight.dtype, layer.weight.device

    return len({kind(layer) for layer in layers}) == 1


def _joined(parameters: Sequence[Tensor]) -> nn.Parameter:
    """Their concatenation; the parameters become views of it, so that nothing is held twice."""
    joined = torch.cat([parameter.detach() for parameter in parameters])
    for parameter, view in zip(
        parameters, torch.split(joined, [len(parameter) for parameter in parameters]), strict=True
    ):
        parameter.data = view
    return nn.Parameter(joined, requires_grad=False)


def _replace_norms(model: nn.Module) -> Replaced:
    replaced: Replaced = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if norm := _as_one_operation(child):
                setattr(parent, name, norm)
                replaced.append((parent, name, child))
    return replaced


def _as_one_operation(module: Any) -> RootMeanSquareNorm | None:
    """The norm that answers what this module does to a random input, if there is one."""
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    weights = dict(module.named_parameters())
    if not isinstance(epsilon, float) or list(weights) != ["weight"] or weights["weight"].dim() != 1:
        return None
    weight = weights["weight"].detach()
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor([[1e-4], [1e-2], [1.0], [30.0]])  # the smallest are about as large as epsilon
    rows = (torch.randn(4, len(weight), generator=generator) * sizes).to(weight)
    expected = module(rows)
    for scale in (weight, 1 + weight):  # Gemma's weights are kept less one
        norm = RootMeanSquareNorm(scale, epsilon)
        found = norm(rows)
        tolerance = NORM_TOLERANCE * torch.finfo(weight.dtype).eps
        if found.dtype == expected.dtype and torch.allclose(found, expected, rtol=tolerance, atol=tolerance * 1e-3):
            return norm
    return None
