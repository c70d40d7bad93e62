"""Which thread made a node. Each thread numbers its nodes from zero, so a number alone does not tell.

torch writes the number of the thread into each node, and has no function in Python that reads it. So it is read where
it lies. Where that is, is found by comparing nodes whose number and thread are known. If nothing fits for certain, or
torch's function that numbers threads is not found, no thread is known, and nodes get tags (`anomaly_tags`).
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_WORDS = range(1, 8)
"""Where the two numbers may lie in a node, in words of 8 bytes."""


class _Layout(NamedTuple):
    """Where a node's thread lies: in which word of the node, and where the Python object has the node's address."""

    word: int
    in_object: int
    in_function: int
    """The same for the Python object of a `torch.autograd.Function`."""


@functools.cache
def number_of_thread() -> Callable[[], int] | None:
    """torch's own function that numbers the calling thread; None where it is not found."""
    names = {"darwin": "libtorch_cpu.dylib"}
    try:
        library = ctypes.CDLL(names.get(sys.platform, "libtorch_cpu.so"), os.RTLD_LAZY | os.RTLD_NOLOAD)
        function = library["_ZN2at14RecordFunction15currentThreadIdEv"]
    except (OSError, AttributeError):
        return None
    function.restype, function.argtypes = ctypes.c_uint64, ()
    return function


@functools.cache
def known() -> bool:
    """Can the thread of a node be read?"""
    return _layout() is not None


def thread_of(node: Any) -> int | None:
    """The number of the thread that made this node; None if that is not known, or if the node itself is gone.

    Before torch 2.7 the node of a Function is gone when its results are, and `grad_fn` alone does not keep it.
    """
    layout = _layout()
    address = None if layout is None else _address(node, layout)
    return None if layout is None or address is None else _word(address, layout.word)


def _address(node: Any, layout: _Layout) -> int | None:
    import torch

    is_function = isinstance(node, torch._C._FunctionBase)
    if is_function:
        try:
            node.next_functions  # noqa: B018
        except RuntimeError:  # the node itself is gone
            return None
    return _word(id(node) + (layout.in_function if is_function else layout.in_object), 0)


def _word(address: int, index: int) -> int:
    return ctypes.c_uint64.from_address(address + 8 * index).value


@functools.cache
def _layout() -> _Layout | None:
    if number_of_thread() is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    samples = [*_samples(), *_samples()]
    found = list(_fitting(samples))
    return found[0] if len(found) == 1 else None


class _Sample(NamedTuple):
    """Nodes of one thread: of operations and of Functions."""

    thread: int
    nodes: list[Any]
    functions: list[Any]
    results: list[Any]
    """What they made. The node of a Function lives only as long. On torch 2.6, asking a dead one ends the process."""


def _samples() -> list[_Sample]:
    """Nodes that are made in a new thread. It has numbered no node yet, and no mode of the program is on there."""
    done = _thread.allocate_lock()
    done.acquire()
    samples: list[_Sample] = []

    def make() -> None:
        try:
            number = number_of_thread()
            if number is not None:
                samples.append(_make_nodes(number()))
        finally:
            done.release()

    _thread.start_new_thread(make, ())
    done.acquire()
    return samples


def _make_nodes(thread: int) -> _Sample:
    import torch

    class Twice(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    leaf = torch.ones(1, device="cpu", requires_grad=True)
    products = [leaf * 2 for _ in range(40)][-3:]
    results = [Twice.apply(leaf) for _ in range(3)]
    nodes, functions = [product.grad_fn for product in products], [result.grad_fn for result in results]
    return _Sample(thread, nodes, functions, [*products, *results])


def _fitting(samples: list[_Sample]) -> Iterator[_Layout]:
    import torch

    in_object = object.__basicsize__
    size = torch._C._FunctionBase.__basicsize__
    if len(samples) < 2:
        return
    for in_function in (size - 8, size - 16):
        nodes = [
            (_word(id(node) + offset, 0), int(node._sequence_nr()), sample.thread)
            for sample in samples
            for offset, made in ((in_object, sample.nodes), (in_function, sample.functions))
            for node in made
        ]
        if not all(address > 4096 and address % 8 == 0 for address, *_ in nodes):
            continue
        for word in _WORDS:
            numbered = any(all(_word(node, index) == number for node, number, _ in nodes) for index in range(1, word))
            if numbered and all(_word(node, word) == thread for node, _, thread in nodes):
                yield _Layout(word, in_object, in_function)
