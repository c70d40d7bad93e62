"""When Dynamo compiles: it reads the code that calls our hooks, and must find nothing there that it cannot compile.

Looking at every mark whether Dynamo is reading it costs a tenth of the mark in all the programs that never compile, so
it begins with the first compilation. Importing Dynamo means nothing: making an optimizer imports it.
"""

from __future__ import annotations

import sys

import torch

from outplace.runtime import imports, instrument, record, writes


def heed_when_it_compiles() -> None:
    """Has the hooks look for Dynamo from its first compilation on."""
    if "torch._dynamo" in sys.modules:
        _await_compilation()
    else:
        imports.then("torch._dynamo", _await_compilation)


def _await_compilation() -> None:
    try:
        sys.modules["torch._dynamo"].callback_handler.register_start_callback(_heed)
    except AttributeError:  # a torch that does not say when it begins to compile
        _heed()


def _heed(*_: object) -> None:
    record.is_traced = writes.is_traced = torch.compiler.is_dynamo_compiling
    instrument.heed_dynamo()
