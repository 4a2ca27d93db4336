"""Attention with one head as wide as all channels, over every position of a frame."""

from __future__ import annotations

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops import launches
from engine.ops.attention.attention import Problem, fastest_of, fault_of, rounded
from engine.ops.attention.backends import BACKENDS, Backend
from engine.ops.choices import settled, uses
from engine.ops.kernels import wide_head
from engine.ops.kernels.build import VALUELESS

_SCORES_BYTES = 64 * 2**20  # of the scores that exist at once
_ROWS = 128  # queries in a launch are a multiple of them: kernels take as many at a time, or fewer


def attend_single_head(
    q: Tensor, k: Tensor, v: Tensor, *, chunked: bool = True, kernels: bool = True
) -> Tensor:
    """Attend within each frame: softmax(q k' / sqrt(C)) v.

    Flash kernels end at heads of 256 channels; the memory-efficient one takes wider heads on most
    GPUs, and our own those of the VAEs in float16. The faster of the two is measured once for each
    machine. Where neither works, some queries are processed at a time, so that no matrix of L x L
    values ever exists. No launch has more queries than `engine.ops.launches` allows: those of a
    whole frame of 4K would take seconds on a slow GPU.

    Args:
        q: [T, L, C].
        k: [T, L, C].
        v: [T, L, C].
        chunked: False: torch chooses, which may take memory that grows with L * L.
        kernels: Whether our kernel may be used.

    Returns:
        [T, L, C].

    Memory: the result and, in chunks, one frame's keys and 64 MiB of scores; without chunks on
    some devices T * L * L values.
    """
    if not chunked or q.device.type == "cpu":  # torch's kernel for CPUs is blocked
        return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
    found = [BACKENDS["efficient"]] if _memory_efficient(q, k, v) else []
    if kernels and _own_kernel(q, k, v):
        found.append(_OWN)
    if not found:
        return attend_in_chunks(q, k, v)
    backend = found[0] if len(found) == 1 else _faster(q, found)
    return _in_launches(backend, q, k, v)


def _in_launches(backend: Backend, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend some frames at a time, or some queries of one; each query gets what it would alone.

    Our kernel divides its launches itself, without copies of their results.
    """
    frames, length, channels = q.shape

    def attended(some: Tensor, at: slice) -> Tensor:
        return backend.run(some[:, None], k[at, None], v[at, None], channels**-0.5)[:, 0]

    row = 4.0 * length * channels  # operations
    at_once = launches.pieces("attention", frames, row * length, q.device, q.dtype)
    rows = launches.pieces("attention", length, row, q.device, q.dtype)
    if backend is _OWN or (at_once == frames and rows == length):
        return attended(q, slice(None))
    result = torch.empty_like(q)
    if rows == length:
        for first in range(0, frames, at_once):
            some = slice(first, first + at_once)
            result[some] = attended(q[some], some)
        return result
    rows = max(_ROWS, rows // _ROWS * _ROWS)
    for frame in range(frames):
        one = slice(frame, frame + 1)
        for first in range(0, length, rows):
            some = slice(first, first + rows)
            result[one, some] = attended(q[one, some], one)
    return result


def attend_in_chunks(q: Tensor, k: Tensor, v: Tensor, scores_bytes: int = _SCORES_BYTES) -> Tensor:
    """Attend within each frame on any device, some queries of one frame at a time.

    Scores are float32 for half precision too: rounded to it, large ones would change their weight
    by several percent.

    Memory: the result, one frame's keys in float32, and `scores_bytes` or one query's scores if
    that is more.
    """
    result = torch.empty_like(q)
    length, channels = q.shape[1:]
    exact = torch.promote_types(q.dtype, torch.float32)
    rows = max(1, scores_bytes // (2 * length * exact.itemsize))  # scores and their softmax
    for t in range(q.shape[0]):
        keys = (k[t].to(exact) * channels**-0.5).t()
        for start in range(0, length, rows):
            some = q[t, start : start + rows].to(exact)
            weights = torch.softmax(some @ keys, dim=-1).to(v.dtype)
            torch.mm(weights, v[t], out=result[t, start : start + rows])
    return result


def _memory_efficient(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether torch's memory-efficient kernel takes these heads and computes them right here."""
    if q.device == VALUELESS:  # of none it is known before
        return False
    params = torch.backends.cuda.SDPAParams(
        q[:, None], k[:, None], v[:, None], None, 0.0, False, False
    )
    if not torch.backends.cuda.can_use_efficient_attention(params):
        return False
    where = q.device, q.dtype, q.shape[-1]
    about = "efficient", q.dtype, q.shape[-1]
    return uses(q.device.type, "attention", about, lambda: fault_of(BACKENDS["efficient"], *where))


def _own_kernel(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether our kernel can read these tensors, and computes such heads right here."""
    return q.device != VALUELESS and wide_head.find(q, k, v) is not None


def _by_own_kernel(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """[N, heads, Q, C] head by head; the VAEs have one."""
    found = wide_head.find(q[:, 0], k[:, 0], v[:, 0])
    if found is None:
        raise ValueError("the kernel cannot read these tensors")
    heads = [found.attend(q[:, h], k[:, h], v[:, h], scale) for h in range(q.shape[1])]
    return heads[0][:, None] if len(heads) == 1 else torch.stack(heads, 1)


_OWN = Backend(name="own", run=_by_own_kernel)


class _SingleHead(Problem):
    """Two frames with one head."""

    def sample(self) -> tuple[Tensor, Tensor, Tensor]:
        """Random thirds of one tensor, as a joined projection gives them."""
        shape = 2, 1, self.length, 3 * self.head_dim
        q, k, v = torch.randn(shape, device=self.device, dtype=self.dtype).chunk(3, dim=-1)
        return q, k, v


def _faster(q: Tensor, backends: list[Backend]) -> Backend:
    """The backend that the running job uses; without a job, the fastest of some that work."""
    names = {one.name: one for one in backends}
    length = rounded(q.shape[1], q.device)
    name = settled(
        q.device.type,
        "attention",
        ("single head", q.dtype, q.shape[2], length, *names),
        propose=lambda: _proposed(q, length, backends),
        fault_of=lambda name: "" if name in names else "it is unknown",
    )
    return names[name]


def _proposed(q: Tensor, length: int, backends: list[Backend]) -> str:
    """Name of the fastest of some; of the first where there is no memory to measure."""
    problem = _SingleHead(device=q.device, dtype=q.dtype, head_dim=q.shape[2], length=length)
    try:
        return _fastest(problem, tuple(backends))
    except RuntimeError as err:
        if not is_out_of_memory(err):
            raise
        return backends[0].name


_fastest = cache(partial(fastest_of, kind="single head"))
