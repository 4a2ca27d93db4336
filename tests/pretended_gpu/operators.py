"""What CUDA does with operators of torch: which wait, which have no kernel, how results lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format
from torch.backends import cuda
from torch.utils.flop_counter import flop_registry

HALF = (torch.float16, torch.bfloat16)

# The host needs to know what they found.
WAITING = {
    *("_local_scalar_dense", "equal", "nonzero", "is_nonzero", "masked_select"),
    *("unique_dim", "_unique2"),
}
# What a reading is where there are no values.
INVENTED: dict[str, object] = {"_local_scalar_dense": 1.0, "equal": True, "is_nonzero": True}
WITHOUT_KERNEL = {
    *("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"),
    *("detach", "alias", "_unsafe_view", "_pin_memory", "is_pinned", "set_", "resize_"),
}
OVERWRITING = {"copy_", "fill_", "zero_", "normal_", "uniform_", "index_copy_", "index_put_"}
PLACING = {"index_copy_", "index_put_"}  # write as much as their last argument has
INDEXING = {"index", "index_put_", "index_put"}  # take indices of the host, copy them and wait
# CUDA promotes nothing in these: floating-point arguments have one dtype.
OF_ONE_DTYPE = {
    *("mm", "addmm", "bmm", "baddbmm", "addmm_", "convolution", "index_copy", "index_copy_"),
    *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention"),
    "_scaled_dot_product_cudnn_attention",
}
# Half precision is multiplied exactly and added up in float32, as tensor cores do.
_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "convolution"}
_NARROW = {"_int_mm", "_scaled_mm"}  # torch counts no operations of them


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with tensors of the processor or of meta."""

    func: Any
    args: Any
    kwargs: dict[str, Any]

    def run(self, *, has_values: bool) -> Any:
        """What CUDA would give, in its layout."""
        name = name_of(self.func)
        if name == "convolution":
            layout = convolution_layout(*self.args[:2])
            return self._computed(name, has_values).contiguous(memory_format=layout)
        if name.startswith("_scaled_dot_product_"):
            return _attention(name, self.args, self.kwargs)
        if name == "_scaled_mm" and not has_values:  # torch has no shapes for it with `out`
            return self.kwargs["out"]
        return self._computed(name, has_values)

    def _computed(self, name: str, has_values: bool) -> Any:
        first = next(x for x in (*self.args, None) if isinstance(x, Tensor) or x is None)
        is_half = first is not None and first.dtype in HALF
        if not has_values:
            return self._shaped()
        if not (name in _PRODUCTS and is_half):
            return self.func(*self.args, **self.kwargs)
        kwargs = {key: value for key, value in self.kwargs.items() if key != "out"}
        args, kwargs = mapped(_widened, (self.args, kwargs))
        overload = self.func
        if "out" in self.kwargs:
            overload = getattr(torch.ops.aten, name).default
        result = overload(*args, **kwargs).to(first.dtype)
        return self.kwargs["out"].copy_(result) if "out" in self.kwargs else result

    def _shaped(self) -> Any:
        """The result without values; that of later calls with like arguments is a copy of it."""
        if is_view(self.func):
            return self.func(*self.args, **self.kwargs)
        given = self.args, self.kwargs
        key = self.func, _described(given)
        known = _SHAPES.get(key)
        if known is None:
            result = self.func(*self.args, **self.kwargs)
            if isinstance(result, Tensor) and result.is_meta and key[1] == _described(given):
                places = [place for place, x in enumerate(tensors(given)) if x is result]
                shape = result.shape, result.stride(), result.dtype
                _SHAPES[key] = places[0] if places else shape
            return result
        if isinstance(known, int):
            return tensors(given)[known]
        shape, stride, dtype = known
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")


_Shape = tuple[torch.Size, tuple[int, ...], torch.dtype]
_SHAPES: dict[Any, _Shape | int] = {}  # of a new result; or which argument the result is


def _described(tree: Any) -> Any:
    """Arguments as a key: of tensors what a result without values depends on."""
    if isinstance(tree, Tensor):
        return tree.shape, tree.stride(), tree.dtype, tree.device.type
    if isinstance(tree, (tuple, list)):
        return tuple(map(_described, tree))
    if isinstance(tree, dict):
        return tuple((name, _described(value)) for name, value in tree.items())
    return type(tree), tree


def tensors(tree: Any) -> list[Tensor]:
    """All tensors in arguments or results, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    found: list[Tensor] = []
    if isinstance(tree, (tuple, list, dict)):
        for branch in tree.values() if isinstance(tree, dict) else tree:
            if isinstance(branch, Tensor):
                found.append(branch)
            elif isinstance(branch, (tuple, list, dict)):
                found += tensors(branch)
    return found


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same arguments or results with a function applied to each value."""
    if isinstance(tree, (tuple, list)):
        return type(tree)([mapped(function, branch) for branch in tree])
    if isinstance(tree, dict):
        return {name: mapped(function, branch) for name, branch in tree.items()}
    return function(tree)


def _widened(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) else x


@cache
def name_of(func: Any) -> str:
    """Name of an operator without its namespace and overload."""
    return str(func._schema.name).removeprefix("aten::")


@cache
def is_composite(func: Any) -> bool:
    """Whether it consists of other operators; inference mode hands them over whole."""
    if func.namespace == "prim":  # of fake tensors: the dispatcher knows none of these
        return False
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


@cache
def is_view(func: Any) -> bool:
    """Whether its result lies in the memory of an argument that it does not write."""
    aliases = (result.alias_info for result in func._schema.returns)
    return any(alias is not None and not alias.is_write for alias in aliases)


def written(func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """Arguments that an operator writes."""
    for place, name, is_named in _written_places(func):
        by_name = is_named or place >= len(args)
        yield from tensors(kwargs.get(name) if by_name else args[place])


@cache
def _written_places(func: Any) -> list[tuple[int, str, bool]]:
    """Place and name of each argument that an operator writes, and whether only the name counts."""
    return [
        (place, argument.name, argument.kwarg_only)
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def reads_what_it_writes(name: str) -> bool:
    """Whether an operator works in place on values that were there."""
    return name.endswith("_") and name not in OVERWRITING


def has_mask(name: str, args: Any) -> bool:
    """Whether indices are a mask, whose places have to be counted."""
    if name not in INDEXING:
        return False
    return any(x.dtype in (torch.bool, torch.uint8) for x in tensors(args[1]))


def convolution_layout(frames: Tensor, weight: Tensor) -> torch.memory_format:
    """As cuDNN lays its results out: channels last where input or weight suggests it."""
    last = torch.channels_last if frames.dim() == 4 else torch.channels_last_3d
    suggested = suggest_memory_format(frames), suggest_memory_format(weight)
    is_last = last in suggested and frames.dtype != torch.float64
    return last if is_last else torch.contiguous_format


def operations(call: Call, result: Any) -> int:
    """Floating-point operations, as torch counts them; 0 for what it does not count."""
    if name_of(call.func) in _NARROW:
        rows, weight = call.args[:2]
        return 2 * int(rows.numel()) * int(weight.shape[1])
    count = flop_registry.get(call.func._overloadpacket)
    return 0 if count is None else int(count(*call.args, **call.kwargs, out_val=result))


def attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None) -> Tensor:
    """F.scaled_dot_product_attention with the kernel that CUDA takes; a CPU build knows none.

    There is no flash kernel, as in builds for Windows.
    """
    aten = torch.ops.aten
    if cuda.mem_efficient_sdp_enabled():
        efficient = aten._scaled_dot_product_efficient_attention
        return efficient(q, k, v, None, False, scale=scale)[0]
    if cuda.cudnn_sdp_enabled():
        cudnn = aten._scaled_dot_product_cudnn_attention
        return cudnn(q, k, v, None, False, scale=scale)[0]
    if cuda.math_sdp_enabled():
        return aten._scaled_dot_product_attention_math(q, k, v, scale=scale)[0]
    raise RuntimeError("No available kernel. Aborting execution.")


def _attention(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    q, k, v = args[:3]
    scale = kwargs.get("scale")
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    if q.is_meta:
        found = q.new_empty(*q.shape[:-1], v.shape[-1])
    else:
        weights = torch.softmax((q.float() @ k.float().transpose(-1, -2)) * factor, -1)
        found = (weights @ v.float()).to(q.dtype)
    found = found.transpose(1, 2).contiguous().transpose(1, 2)
    empty = q.new_empty(0)
    if "efficient" in name:
        return found, empty, empty, empty
    if "cudnn" in name:
        return found, empty, empty, empty, 0, 0, empty, empty, empty
    return found, empty
