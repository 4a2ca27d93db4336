"""Tensors that say they are on `cuda:0`, and a record of what is done with them."""

from __future__ import annotations

import bisect
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tests.helpers.dispatch import DispatchMode
from tests.pretended_gpu import operators
from tests.pretended_gpu.allocator import FIRST_STREAM, MAX_SPLIT, Allocator, Block
from tests.pretended_gpu.clocks import HOST, Clock, History, Use

GPU = torch.device("cuda", 0)
_FIRST_ADDRESS = 2**36
# From this version on torch gives cuDNN single samples of 2^31 values and more; before it computes
# them with a kernel of its own, slowly (pytorch/pytorch#134890).
_WIDE_CUDNN = 90_300
_GETTER = type(torch.Tensor.shape.__get__)  # of attributes of tensors
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


class GpuTensor(torch.Tensor):
    """A tensor on the pretended GPU; `held` is what it is made of, on the processor or on meta."""

    held: Tensor
    gpu: PretendedGpu

    @staticmethod
    def __new__(cls, held: Tensor, gpu: PretendedGpu) -> GpuTensor:
        """Wrap a tensor; it has the same layout."""
        made: GpuTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=GPU,
            requires_grad=False,
        )
        made.held, made.gpu = held, gpu
        gpu.hold(made)
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    def data_ptr(self) -> int:
        """Address that the pretended allocator gave it; aligned as CUDA's are."""
        with torch._C.DisableTorchFunction():
            first = self.gpu.memory[key_of(self.held)].address
            return first + self.held.storage_offset() * self.held.element_size()

    def __repr__(self) -> str:
        return f"GpuTensor({tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """An operator on tensors of a GPU."""
        found = operators.tensors((args, kwargs))
        return next(x for x in found if isinstance(x, GpuTensor)).gpu.dispatch(func, args, kwargs)


def key_of(tensor: Tensor) -> int:
    """Identity of the memory that a tensor views."""
    return tensor.untyped_storage()._cdata


@dataclass(slots=True)
class Memory:
    """One allocation.

    Attributes:
        storage: What holds its values.
        address: On the GPU; 0 for memory of the host.
        block: Of the allocator.
        history: Uses so far.
        tensors: Wrappers that view it.
    """

    storage: torch.UntypedStorage
    address: int
    block: Block
    history: History
    tensors: int = 0


class Stream:
    """Stands in for torch.cuda.Stream."""

    device = GPU

    def __init__(self, gpu: PretendedGpu, name: str) -> None:
        self.name, self.clock, self._gpu = name, Clock(gpu.host_clock), gpu
        self.cuda_stream = len(gpu.streams)
        gpu.streams.append(self)

    def wait_event(self, event: Event) -> None:
        """Work from now on comes after the event."""
        self.clock.join(event.clock)

    def wait_stream(self, stream: Stream) -> None:
        """Work from now on comes after all work of another stream so far."""
        self.clock.join(stream.clock)

    def record_event(self, event: Event | None = None) -> Event:
        """An event after all work so far."""
        event = event or Event(self._gpu)
        event.record(self)
        return event

    def synchronize(self) -> None:
        """The host waits for all work so far."""
        self._gpu.wait("Stream.synchronize", self.clock)


class Event:
    """Stands in for torch.cuda.Event."""

    def __init__(self, gpu: PretendedGpu, **_: object) -> None:
        self.clock, self._gpu, self._ticks = Clock(), gpu, 0

    def record(self, stream: Stream | None = None) -> None:
        """Comes after all work of a stream so far."""
        self.clock = Clock((stream or self._gpu.current).clock)
        self._ticks = self._gpu.launches

    def synchronize(self) -> None:
        """The host waits for it."""
        self._gpu.wait("Event.synchronize", self.clock)

    def query(self) -> bool:
        """Whether it is known to have happened: as late as it can."""
        return self._gpu.host_clock.includes(self.clock)

    def elapsed_time(self, later: Event) -> float:
        """Milliseconds: ten microseconds for each launch between, at least one launch."""
        return max(1, later._ticks - self._ticks) * 0.01


@dataclass(slots=True)
class Record:
    """What was seen.

    Attributes:
        problems: Sentences and the lines of the program, with how often.
        waits: What made the host wait, and where.
        launches: By operator or kernel.
        touched: Bytes read and written, by operator or kernel.
        copies: Bytes by kind ("H2D pinned async") and place.
        convolutions: Shapes of input and weight, stride and padding, of those that cuDNN measures.
        operations: Floating-point, of products, convolutions and attention.
    """

    problems: Counter[tuple[str, str]] = field(default_factory=Counter)
    waits: Counter[tuple[str, str]] = field(default_factory=Counter)
    launches: Counter[str] = field(default_factory=Counter)
    touched: Counter[str] = field(default_factory=Counter)
    copies: Counter[tuple[str, str]] = field(default_factory=Counter)
    convolutions: Counter[tuple[object, ...]] = field(default_factory=Counter)
    operations: int = 0


class PretendedGpu:
    """The allocator, the streams and the operators of one pretended GPU.

    Args:
        has_values: False: tensors have shapes alone, and readings on the host are invented.
        total_bytes: Its memory.
        max_split: Of its allocator.

    Attributes:
        record: What was seen; may be replaced by an empty one to begin again from zero.
        memory: Live allocations by `key_of`, those of host memory that copies use included.
        allocator: Bytes that they take.
        launches: So far.
        lost: What every call answers from now on; "" while all is well.
        used: Devices that were current when memory was allocated or all work was waited for, though
            all tensors say they are on the first one.
    """

    def __init__(
        self, *, has_values: bool = True, total_bytes: int = 12 * 2**30, max_split: int = MAX_SPLIT
    ) -> None:
        self.has_values = has_values
        self.record = Record()
        self.memory: dict[int, Memory] = {}
        self.allocator = Allocator(total_bytes, max_split)
        self.launches = 0
        self.lost = ""
        self.used: set[int] = set()
        self.host_clock = Clock()
        self.streams: list[Stream] = []
        self.default = Stream(self, FIRST_STREAM)
        self.pinned: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
        self.registered: dict[int, int] = {}  # bytes by address, of cudaHostRegister
        self._alive: dict[int, tuple[weakref.ref[GpuTensor], int]] = {}  # tensors and their keys
        self._thread = threading.local()
        self._addresses: list[tuple[int, int]] = []  # (address, key), in order
        self._next_address = _FIRST_ADDRESS
        self._lock = threading.RLock()

    @property
    def current(self) -> Stream:
        """The stream of this thread."""
        return getattr(self._thread, "stream", self.default)

    @property
    def number(self) -> int:
        """Stands in for torch.cuda.current_device."""
        return getattr(self._thread, "number", 0)

    @contextmanager
    def device(self, number: int) -> Iterator[None]:
        """Stands in for torch.cuda.device."""
        before, self._thread.number = self.number, number
        try:
            yield
        finally:
            self._thread.number = before

    @contextmanager
    def on(self, stream: Stream | None) -> Iterator[None]:
        """Stands in for torch.cuda.stream."""
        before = self.current
        self._thread.stream = stream or before
        try:
            yield
        finally:
            self._thread.stream = before

    # memory

    def hold(self, tensor: GpuTensor) -> None:
        """Count one more tensor on its memory, which is allocated with the first one."""
        held = tensor.held
        key = key_of(held)
        with self._lock:
            memory = self.memory.get(key)
            if memory is None:
                storage = held.untyped_storage()
                block = self.allocator.take(storage.nbytes(), self.current.name)
                self.used.add(self.number)
                history = History(self.current.name, tuple(held.shape))
                memory = self.memory[key] = Memory(storage, self._next_address, block, history)
                bisect.insort(self._addresses, (memory.address, key))
                self._next_address += block.nbytes + 512
            memory.tensors += 1
            alive = weakref.ref(tensor, self._let_go)  # weakref.finalize takes three times as long
            self._alive[id(alive)] = alive, key

    def _let_go(self, alive: weakref.ref[GpuTensor]) -> None:
        with self._lock:
            _, key = self._alive.pop(id(alive))
            memory = self.memory.get(key)
            if memory is None:
                return
            memory.tensors -= 1
            if memory.tensors:
                return
            del self.memory[key]
            del self._addresses[bisect.bisect_left(self._addresses, (memory.address, key))]
            self.allocator.give(memory.block)
            history = memory.history
            home = next(s for s in self.streams if s.name == history.home)
            for use in history.unfinished((home.clock, self.host_clock)):
                text = f"{history.shape} of {history.home} freed while {use.timeline} may use it"
                self.problem(text, use.place)

    def at(self, address: int) -> tuple[Memory, int]:
        """The allocation that an address lies in, and the bytes before it."""
        index = bisect.bisect_right(self._addresses, (address, sys.maxsize)) - 1
        memory = self.memory[self._addresses[index][1]] if index >= 0 else None
        if memory is None or address >= memory.address + max(1, memory.block.nbytes):
            raise RuntimeError(f"a kernel was given {address:#x}, where no memory is")
        return memory, address - memory.address

    def check_lost(self) -> None:
        """Answer as CUDA does once a GPU is lost.

        Raises:
            RuntimeError: It is.
        """
        if self.lost:
            raise RuntimeError(
                f"CUDA error: {self.lost}\nCUDA kernel errors might be reported late."
            )

    # what is recorded

    def problem(self, text: str, place: str | None = None) -> None:
        """Record something that is wrong."""
        self.record.problems[text, place or where()] += 1

    def wait(self, what: str, clock: Clock | None = None) -> None:
        """Record that the host waits for all that a clock knows; None: that of the stream."""
        self.record.waits[what, where()] += 1
        self.host_clock.join(self.current.clock if clock is None else clock)

    def synchronize(self, _: object = None) -> None:
        """Stands in for torch.cuda.synchronize."""
        self.check_lost()
        self.used.add(self.number)
        for stream in self.streams:
            self.host_clock.join(stream.clock)
        self.wait("torch.cuda.synchronize")

    def launch(self, name: str, reads: Iterable[GpuPart], writes: Iterable[GpuPart]) -> None:
        """Record a kernel on the current stream, with the memory that it uses."""
        clock, place = self._step(), where()
        size = 0
        for parts, is_write in ((reads, False), (writes, True)):
            for key, nbytes in parts:
                size += nbytes
                self._use(key, clock, name, is_write, place)
        self.launches += 1
        self.record.launches[name] += 1
        self.record.touched[name] += size

    def _step(self) -> Clock:
        stream = self.current
        stream.clock[stream.name] += 1
        stream.clock.join(self.host_clock)
        return stream.clock

    def _use(self, key: int, clock: Clock, name: str, is_write: bool, place: str) -> None:
        memory, stream = self.memory.get(key), self.current.name
        if memory is not None:
            use = Use(stream, clock[stream], place)
            for text in memory.history.collisions(use, clock, writes=is_write):
                self.problem(f"{name}: {text}", place)

    # operators

    def dispatch(self, func: Any, args: Any, kwargs: dict[str, Any] | None) -> Any:
        """Run an operator whose arguments or result are on the GPU, or any one of the host."""
        kwargs = kwargs or {}
        if operators.is_composite(func):
            with GpuMode(self):
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        given = operators.tensors((args, kwargs))
        mine = [x for x in given if isinstance(x, GpuTensor)]
        hosts = [x for x in given if not isinstance(x, GpuTensor)]
        device = kwargs.get("device")
        if not mine and (device is None or torch.device(device).type != "cuda"):
            return self._on_host(func, args, kwargs, hosts)
        self.check_lost()
        name = operators.name_of(func)
        if name in ("_to_copy", "copy_"):
            return self._transfer(func, args, kwargs)
        self._check(name, mine, hosts)
        if name in operators.WAITING or operators.has_mask(name, args):
            self.wait(name)
            if not self.has_values and name in operators.INVENTED:
                return operators.INVENTED[name]
        return self._run(func, args, kwargs, mine)

    def _check(self, name: str, mine: list[GpuTensor], hosts: list[Tensor]) -> None:
        wide = [x for x in hosts if x.dim() > 0]
        if mine and wide and name not in operators.INDEXING:
            self.problem(f"{name}: {[tuple(x.shape) for x in wide]} of the host among others")
        if mine and wide and name in operators.INDEXING:
            self.wait(f"{name} with indices of the host")
        if name in operators.OF_ONE_DTYPE:
            kinds = {x.dtype for x in mine if x.dtype.is_floating_point}
            if len(kinds) > 1:
                self.problem(f"{name}: mixed dtypes {sorted(map(str, kinds))}")

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any], mine: list[GpuTensor]) -> Any:
        inner_args, inner_kwargs = operators.mapped(self._inner, (args, kwargs))
        if inner_kwargs.get("device") is not None:
            inner_kwargs = {**inner_kwargs, "device": self._held_device}
        inner_kwargs.pop("pin_memory", None)
        call = operators.Call(func, inner_args, inner_kwargs)
        name = operators.name_of(func)
        result = call.run(has_values=self.has_values)
        if name == "convolution":
            self._look_at_convolution(inner_args, result)
        self.record.operations += operators.operations(call, result)
        out = operators.mapped(self._wrapper(mine, func), result)
        if not operators.is_view(func) and name not in operators.WITHOUT_KERNEL:
            written = {key_of(x.held) for x in operators.written(func, args, kwargs) if is_gpu(x)}
            made = [x for x in operators.tensors(out) if is_gpu(x)]
            written |= {key_of(x.held) for x in made}
            in_place = operators.reads_what_it_writes(name)
            reads = [part_of(x) for x in mine if in_place or key_of(x.held) not in written]
            writes = [part_of(x) for x in mine if key_of(x.held) in written]
            named = {id(x) for x in mine}
            writes += [part_of(x) for x in made if id(x) not in named]
            if name in operators.PLACING:
                placed = operators.tensors(args)[-1]
                writes = [(key, placed.numel() * placed.element_size()) for key, _ in writes]
            self.launch(name, reads, writes)
        return out

    @property
    def _held_device(self) -> torch.device:
        return torch.device("cpu" if self.has_values else "meta")

    def _inner(self, x: Any) -> Any:
        if isinstance(x, GpuTensor):
            return x.held
        return x.to(self._held_device) if isinstance(x, Tensor) and not self.has_values else x

    def _wrapper(self, inputs: list[GpuTensor], func: Any) -> Callable[[Any], Any]:
        known = {id(x.held): x for x in inputs}
        # a view has the inference flag of its base
        is_usual = operators.is_view(func) and bool(inputs) and not inputs[0].is_inference()

        def wrap(found: Any) -> Any:
            if not isinstance(found, Tensor):
                return found
            if id(found) in known:
                return known[id(found)]
            if is_usual and torch.is_inference_mode_enabled():
                with torch.inference_mode(False):
                    return GpuTensor(found, self)
            return GpuTensor(found, self)

        return wrap

    def _look_at_convolution(self, args: Any, result: Tensor) -> None:
        frames, weight, bias = args[:3]
        if bias is not None:
            self.record.launches["bias of a convolution"] += 1  # torch adds it to cuDNN's result
            self.record.touched["bias of a convolution"] += (
                2 * result.numel() * result.element_size()
            )
        layout = operators.convolution_layout(frames, weight)
        for what, x in (("input", frames), ("weight", weight)):
            if not x.is_contiguous(memory_format=layout):
                name = f"cuDNN copies its {what}"
                self.record.launches[name] += 1
                self.record.touched[name] += 2 * x.numel() * x.element_size()
        cudnn: Any = torch.backends.cudnn
        if frames.numel() >= 2**31 * max(1, len(frames)) and cudnn.version() < _WIDE_CUDNN:
            self.problem(f"a convolution of {tuple(frames.shape)} is too large for cuDNN")
        if cudnn.benchmark:
            shapes = tuple(frames.shape), tuple(weight.shape), *(tuple(args[i]) for i in (3, 4))
            self.record.convolutions[shapes] += 1

    # between host and GPU

    def _transfer(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        is_copy = operators.name_of(func) == "copy_"
        source = args[1] if is_copy else args[0]
        if is_copy:
            goes = is_gpu(args[0])
            late = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        else:
            device = kwargs.get("device")
            goes = is_gpu(source) if device is None else torch.device(device).type == "cuda"
            late = bool(kwargs.get("non_blocking", False))
        if is_gpu(source) and goes:
            return self._run(func, args, kwargs, [x for x in args if is_gpu(x)])
        result = self._copied(args[0], source) if is_copy else self._moved(source, goes, kwargs)
        host, mine = (source, result) if goes else (result, source)
        self._record_transfer(host, mine, goes, late)
        return result

    def _copied(self, target: Tensor, source: Tensor) -> Tensor:
        if self.has_values:
            self._inner(target).copy_(self._inner(source))
        return target

    def _moved(self, source: Tensor, goes: bool, kwargs: dict[str, Any]) -> Tensor:
        inner = self._inner(source)
        options = {"dtype": kwargs.get("dtype"), "memory_format": kwargs.get("memory_format")}
        options = {name: value for name, value in options.items() if value is not None}
        if goes:
            held = inner.to(self._held_device, copy=True, **options)
            return GpuTensor(held, self)
        if not self.has_values:
            return torch.zeros(inner.shape, dtype=kwargs.get("dtype") or inner.dtype)
        return inner.to("cpu", copy=True, **options)

    def _record_transfer(self, host: Tensor, mine: Tensor, goes: bool, late: bool) -> None:
        way = "H2D" if goes else "D2H"
        is_pinned, is_dense = self.is_pinned(host), _is_dense(host) and _is_dense(mine)
        kind = f"{way} {'pinned' if is_pinned else 'pageable'} {'async' if late else 'blocking'}"
        place = where()
        self.record.copies[kind if is_dense else f"{kind} strided", place] += host.nbytes
        clock = self._step()
        self._use(key_of(mine.held), clock, way, goes, place)
        if late and is_pinned and is_dense:
            key = key_of(host)
            if key not in self.memory:
                history = History(HOST, tuple(host.shape))
                self.memory[key] = Memory(host.untyped_storage(), 0, 0, history, tensors=1)
                # the storage is held: memory that a copy goes on with is never used for another
            self._use(key, clock, way, not goes, place)
        else:
            self.wait(kind)

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether memory of the host is pinned, by torch or by cudaHostRegister."""
        if key_of(tensor) in self.pinned:
            return True
        at = tensor.untyped_storage().data_ptr() if tensor.device.type == "cpu" else 0
        return any(first <= at < first + size for first, size in self.registered.items())

    def pin(self, tensor: Tensor) -> Tensor:
        """Mark memory of the host as pinned."""
        self.pinned[key_of(tensor)] = tensor
        return tensor

    def _on_host(self, func: Any, args: Any, kwargs: dict[str, Any], hosts: list[Tensor]) -> Any:
        """An operator of the processor: does it use what a copy still works on?"""
        if kwargs.get("pin_memory"):
            return self.pin(func(*args, **{**kwargs, "pin_memory": False}))
        if not operators.is_view(func):
            used = {key_of(x) for x in hosts} & self.memory.keys()
            written = {key_of(x) for x in operators.written(func, args, kwargs)} if used else used
            for key in used:
                use = Use(HOST, 0, where())
                history = self.memory[key].history
                for text in history.collisions(use, self.host_clock, writes=key in written):
                    self.problem(f"{operators.name_of(func)}: {text}")
        return func(*args, **kwargs)


GpuPart = tuple[int, int]  # key of the memory, bytes


def part_of(tensor: GpuTensor) -> GpuPart:
    """The memory of a tensor and how much of it the tensor has."""
    return key_of(tensor.held), tensor.numel() * tensor.element_size()


def is_gpu(x: object) -> bool:
    """Whether something is a tensor on the GPU."""
    return isinstance(x, GpuTensor)


class GpuMode(DispatchMode):
    """Sees operators of the host, and those that create tensors on the GPU."""

    def __init__(self, gpu: PretendedGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Any operator of the thread."""
        return self._gpu.dispatch(func, args, kwargs)


class FunctionMode(TorchFunctionMode):
    """Makes `cuda` the device `cuda:0`, for whose number torch would ask a driver."""

    def __init__(self, gpu: PretendedGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Any function of torch that the thread calls."""
        if type(func) is _GETTER:  # every second call
            return func(*args)
        if func is torch.device and len(args) > 1:  # it has its number
            return func(*args, **(kwargs or {}))
        args = tuple(map(_numbered, args))
        kwargs = {name: _numbered(value) for name, value in kwargs.items()} if kwargs else {}
        if func is torch.Tensor.cuda:
            return args[0].to(GPU)
        if func is torch.Tensor.pin_memory:
            return self._gpu.pin(args[0].clone())
        if func is torch.Tensor.is_pinned:
            return self._gpu.is_pinned(args[0])
        if func is F.scaled_dot_product_attention and is_gpu(args[0]):
            return operators.attention(*args, **kwargs)
        if func is torch.Tensor.__getitem__ and is_gpu(args[0]):
            return args[0][_indices(args[1])]
        if func is torch.tensor and kwargs.get("device") == GPU:
            kwargs.pop("device")
            return func(*args, **kwargs).to(GPU)
        return func(*args, **kwargs)


def _indices(index: Any) -> Any:
    """Lists as tensors of the host, which torch copies to the GPU before it indexes."""
    if isinstance(index, tuple):
        return tuple(map(_indices, index))
    return torch.tensor(index) if isinstance(index, list) else index


def _numbered(x: Any) -> Any:
    if isinstance(x, Tensor):  # nearly all
        return x
    if isinstance(x, torch.device):
        return GPU if x.type == "cuda" else x
    return GPU if isinstance(x, str) and x == "cuda" else x


def _is_dense(x: Tensor) -> bool:
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(x.stride(), x.shape, strict=True) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def where(depth: int = 3) -> str:
    """The innermost lines of the program that led here: "pipeline/stream.py:81 < ..."."""
    frame, found = sys._getframe(1), list[str]()
    while frame is not None and len(found) < depth:
        name = _in_program(frame.f_code.co_filename)
        if name:
            found.append(f"{name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


@cache
def _in_program(file: str) -> str:
    """Path of a file below `engine`; "" for others."""
    return file.replace("\\", "/").rpartition("/engine/")[2] if "/engine/" in file else ""
