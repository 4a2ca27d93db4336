"""Lines of the engine that run only where a GPU computes, found in its sources.

What counts:

- what depends on a condition on the kind of the device: a branch of an `if` or of a conditional
  expression, what comes after `and` or `or`, the rest of a block after an early `return`,
  `continue` or `raise`. Such a condition compares a device with "cuda" or "cpu" (there is no other
  one), has a name of `SAY_SO`, or is true only where such a condition was: a variable, attribute
  or result of a function (`pins`, `find` of the kernels), followed through the sources;
- what handles errors that only a GPU raises, and statements that call `torch.cuda`;
- functions, classes and modules of `GPU_ONLY`.

What does not count: definitions and constants, which run on import; lines that run for either
device, whatever they do there. A branch within a line counts like a line of its own.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ENGINE = Path(__file__).parents[2] / "engine"
ROOMS = ("ops", "models", "pipeline")
SAY_SO = frozenset({"on_card", "on_gpu", "is_gpu", "is_cuda", "is_available", "is_initialized"})
GPU_ERRORS = frozenset({"OutOfMemoryError", "Spilled", "MemoryReleased"})
# Used by nothing else than the code for a GPU: a module, a function or a class, and why.
GPU_ONLY = {
    "ops/kernels/build.py": "CUDA kernels: sources and trials",
    "ops/kernels/channel_norm.py": "a CUDA kernel",
    "ops/kernels/driver.py": "the CUDA driver",
    "ops/kernels/grids.py": "grids and arguments of CUDA kernels",
    "ops/kernels/group_norm.py": "CUDA kernels",
    "ops/kernels/heads.py": "a CUDA kernel",
    "ops/kernels/nvrtc.py": "the compiler of CUDA kernels",
    "ops/kernels/token_rows.py": "CUDA kernels",
    "ops/attention/backends.py:_flash": "a package of CUDA kernels",
    "ops/attention/backends.py:_function": "the same",
    "ops/attention/backends.py:_sage2": "the same",
    "ops/attention/backends.py:_sage3": "the same",
    "ops/attention/backends.py:_xformers": "the same",
    "ops/attention/single_head.py:attend_in_chunks": "a processor's attention needs no chunks",
    "ops/attention/single_head.py:_memory_efficient": "a kernel of CUDA builds",
    "ops/conv/trial.py:_choice_of": "what is measured on a GPU is kept in a file",
    "ops/conv/trial.py:_choose": "a processor has one form for all layers",
    "ops/conv/trial.py:_workspace": "memory of a GPU",
    "ops/linear/promoted.py": "products by a CUDA kernel",
    "ops/transfer/pinned.py:_register": "pins memory",
    "ops/transfer/pinned.py:_swallow": "pins memory",
    "ops/transfer/pinned.py:_unregister": "pins memory",
    "ops/transfer/tile_canvas.py:_StreamTransfer": "a stream of a GPU",
    "ops/transfer/tile_canvas.py:_pinned": "pins memory",
    "ops/trials.py:gpu_seconds": "events of a GPU",
    "ops/transfer/weight_streaming.py:GpuBuffers": "a stream of a GPU",
    "models/planning/transformers.py:_blocks_text": "blocks on the GPU",
    "pipeline/gpu_guard.py:_guard": "watches the GPU's memory",
    "pipeline/gpu_guard.py:expected_seconds": "for the guard",
}

ALWAYS = ({True}, {True, False})  # what is known of all values of a name
Definition = ast.FunctionDef | ast.AsyncFunctionDef
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SHIFT = 100_000  # lines; no file is that long


@dataclass(frozen=True, slots=True)
class Meaning:
    """Whether a condition, where it is true and where it is false, means that a GPU computes."""

    if_true: bool = False
    if_false: bool = False


@dataclass(slots=True)
class GpuCode:
    """Code of a file that runs only for a GPU.

    Attributes:
        tree: The file.
        lines: Lines of statements; comments and blank lines may be among them.
        parts: Branches within a line of another statement, in order.
        owners: Function or class of each line.
    """

    tree: ast.Module
    lines: set[int] = field(default_factory=set)
    parts: list[ast.expr] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)

    def shift_parts(self) -> ast.Module:
        """The file with each part on lines of its own, where a record of lines tells it apart."""
        for number, part in enumerate(self.parts, 1):
            for node in ast.walk(part):
                if isinstance(node, ast.expr | ast.arg | ast.keyword):
                    node.lineno += number * _SHIFT
                    node.end_lineno = (node.end_lineno or 0) + number * _SHIFT
        return self.tree


def parts_run(code: GpuCode, executed: set[int]) -> Iterator[tuple[int, bool]]:
    """Line of each part, and whether it is among the lines that were run after `shift_parts`."""
    for number, part in enumerate(code.parts, 1):
        span = range(part.lineno, (part.end_lineno or part.lineno) + 1)
        yield part.lineno, any(line + number * _SHIFT in executed for line in span)


@cache
def gpu_code() -> dict[Path, GpuCode]:
    """Code that runs only for a GPU, by file of the engine; files without any are left out."""
    paths = sorted(path for room in ROOMS for path in (ENGINE / room).rglob("*.py"))
    texts = {path.relative_to(ENGINE).as_posix(): path.read_text("utf-8") for path in paths}
    found = find(texts)
    return {ENGINE / name: code for name, code in found.items() if code.lines or code.parts}


def find(texts: dict[str, str]) -> dict[str, GpuCode]:
    """Code that runs only for a GPU in some sources, by their path below the engine."""
    trees = {name: ast.parse(text) for name, text in texts.items()}
    known, before = SAY_SO, frozenset[str]()
    while known != before:
        before = known
        files = {name: _File(name, tree, known) for name, tree in trees.items()}
        evidence = defaultdict(set)
        for file in files.values():
            for name, proof in file.evidence:
                evidence[name].add(proof)
        known = SAY_SO | {name for name, proofs in evidence.items() if proofs in ALWAYS}
    return {name: file.code for name, file in files.items()}


class _File:
    """One file, with names that are true only for a GPU; those of functions end with "()".

    Attributes:
        code: Code that runs only for a GPU.
        evidence: For each value of an attribute and each result of a function whether it is true
            only for a GPU: True, or None; False where it is never true.
    """

    def __init__(self, name: str, tree: ast.Module, known: frozenset[str]) -> None:
        self.known, self.code = known, GpuCode(tree)
        self.evidence: list[tuple[str, bool | None]] = []
        self._name = name
        self._definitions(tree.body, "", name in GPU_ONLY)

    def _definitions(self, body: Sequence[ast.stmt], owner: str, inside: bool) -> None:
        for node in body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and owner:
                value = node.value
                self.evidence.append((node.target.id, False if _is_never(value) else None))
            if not isinstance(node, ast.ClassDef | Definition):
                continue
            name = f"{owner}.{node.name}" if owner else node.name
            is_only = inside or f"{self._name}:{name}" in GPU_ONLY
            if isinstance(node, ast.ClassDef):
                self._definitions(node.body, name, is_only)
            else:
                _Function(self, node, name).read(inside=is_only)


class _Function:
    """One function of a file, nested ones included."""

    def __init__(self, file: _File, node: Definition, name: str) -> None:
        self._file, self._node, self._name = file, node, name
        targets = (target.id for target in ast.walk(node) if _is_target(target))
        self._once = {name for name, count in Counter(targets).items() if count == 1}
        self._locals: dict[str, Meaning] = {}
        self._results: list[bool | None] = []

    def read(self, *, inside: bool) -> None:
        """Read it; inside: all of it is only for a GPU."""
        self._block(self._node.body, inside)
        is_generator = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(self._node))
        if self._results and not is_generator:
            is_property = "property" in set().union(*map(_names, self._node.decorator_list))
            name = self._node.name if is_property else f"{self._node.name}()"
            self._file.evidence += [(name, proof) for proof in self._results]

    def _block(self, body: Sequence[ast.stmt], inside: bool) -> None:
        for node in body:
            if inside:
                self._mark(node)
            inside |= self._statement(node, inside)

    def _mark(self, node: ast.stmt) -> None:
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        self._file.code.lines.update(lines)
        self._file.code.owners.update(dict.fromkeys(lines, self._name))

    def _statement(self, node: ast.stmt, inside: bool) -> bool:
        """Read a statement; whether what comes after it in its block is only for a GPU."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                _Function(self._file, node, f"{self._name}.{node.name}").read(inside=inside)
            case ast.If() | ast.While():
                self._parts(node.test, inside)
                means = self._meaning(node.test)
                self._block(node.body, inside or means.if_true)
                self._block(node.orelse, inside or means.if_false)
                return (means.if_false and _leaves(node.body)) or (
                    means.if_true and _leaves(node.orelse)
                )
            case ast.For():
                self._parts(node.iter, inside)
                self._block([*node.body, *node.orelse], inside)
            case ast.With():
                for item in node.items:
                    self._parts(item, inside)
                self._block(node.body, inside)
            case ast.Try():
                self._block([*node.body, *node.orelse], inside)
                for handler in node.handlers:
                    self._block(handler.body, inside or _are_gpu_errors(handler.type))
                self._block(node.finalbody, inside)
            case _:
                self._simple(node, inside)
        return False

    def _simple(self, node: ast.stmt, inside: bool) -> None:
        before = len(self._file.code.parts)
        self._parts(node, inside)
        if not inside and len(self._file.code.parts) == before and _calls_cuda(node):
            self._mark(node)
            inside = True
        if isinstance(node, ast.Return):
            self._results.append(node.value is not None and self._proof(node.value, inside))
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            return
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        if isinstance(target, ast.Attribute):
            self._file.evidence.append((target.attr, self._proof(node.value, inside)))
        elif isinstance(target, ast.Name) and target.id in self._once and node.value is not None:
            self._locals[target.id] = self._meaning(node.value)

    def _proof(self, value: ast.expr | None, inside: bool) -> bool | None:
        if _is_never(value):
            return False
        is_proof = inside or (value is not None and self._meaning(value).if_true)
        return True if is_proof else None

    def _parts(self, node: ast.AST, inside: bool) -> None:
        """Note branches within an expression, the outermost ones."""
        if inside:
            return
        match node:
            case ast.IfExp():
                self._parts(node.test, inside)
                means = self._meaning(node.test)
                self._part(node.body, means.if_true)
                self._part(node.orelse, means.if_false)
            case ast.BoolOp():
                is_known = False
                for value in node.values:
                    self._part(value, is_known)
                    means = self._meaning(value)
                    is_and = isinstance(node.op, ast.And)
                    is_known |= means.if_true if is_and else means.if_false
            case _:
                for child in ast.iter_child_nodes(node):
                    self._parts(child, inside)

    def _part(self, node: ast.expr, is_known: bool) -> None:
        if is_known:
            self._file.code.parts.append(node)
            self._file.code.owners.setdefault(node.lineno, self._name)
        else:
            self._parts(node, inside=False)

    def _meaning(self, node: ast.expr) -> Meaning:
        match node:
            case ast.Constant():
                return Meaning(not node.value, bool(node.value))  # it is never the other
            case ast.Name():
                return self._locals.get(node.id, Meaning(node.id in self._file.known))
            case ast.Attribute():
                return Meaning(node.attr in self._file.known)
            case ast.Call(func=ast.Attribute(value=owner, attr="get")):
                return Meaning(self._meaning(owner).if_true)  # an empty dictionary has nothing
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                return Meaning(_are_gpu_errors(kinds))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return Meaning(f"{name}()" in self._file.known or name in SAY_SO)
            case ast.UnaryOp(op=ast.Not()):
                means = self._meaning(node.operand)
                return Meaning(means.if_false, means.if_true)
            case ast.BoolOp():
                each = [self._meaning(value) for value in node.values]
                true, false = [one.if_true for one in each], [one.if_false for one in each]
                if isinstance(node.op, ast.And):
                    return Meaning(any(true), all(false))
                return Meaning(all(true), any(false))
            case ast.IfExp():
                test, *values = map(self._meaning, (node.test, node.body, node.orelse))
                return Meaning(
                    (test.if_true or values[0].if_true) and (test.if_false or values[1].if_true),
                    (test.if_true or values[0].if_false) and (test.if_false or values[1].if_false),
                )
            case ast.Compare(left=left, ops=[operator], comparators=[ast.Constant(value=value)]):
                return self._comparison(left, operator, value)
        return Meaning()

    def _comparison(self, left: ast.expr, operator: ast.cmpop, value: object) -> Meaning:
        if value is None:
            there = self._meaning(left).if_true
            return Meaning(there) if isinstance(operator, ast.IsNot) else Meaning(False, there)
        if value == "spilled":
            return Meaning(isinstance(operator, ast.Eq))
        if value not in ("cuda", "cpu") or "device" not in ast.unparse(left):
            return Meaning()
        is_gpu = (value == "cuda") == isinstance(operator, ast.Eq)
        return Meaning(is_gpu, not is_gpu)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function without those of functions in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Definition | ast.Lambda):
            yield child
            yield from _own(child)


def _is_target(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_never(value: ast.expr | None) -> bool:
    """Whether a value is never true."""
    if isinstance(value, ast.Dict):
        return not value.keys
    return isinstance(value, ast.Constant) and not value.value


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], _LEAVING)


def _names(node: ast.expr | None) -> set[str]:
    """Names in an expression, without their owners; "" for anything else."""
    match node:
        case ast.Name():
            return {node.id}
        case ast.Attribute():
            return {node.attr}
        case ast.Tuple():
            return set().union(*map(_names, node.elts))
        case ast.BinOp():
            return _names(node.left) | _names(node.right)
    return {""}


def _are_gpu_errors(kinds: ast.expr | None) -> bool:
    return _names(kinds) <= GPU_ERRORS


def _calls_cuda(node: ast.stmt) -> bool:
    """Whether a simple statement calls a function of torch.cuda, other than to ask for a GPU."""
    return any(
        ast.unparse(call.func).startswith("torch.cuda.") and not _names(call.func) & SAY_SO
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
    )
