"""Puts marks into the user's source when it is loaded: before each statement, and where a function returns.

The program stays the same: no name is added to its modules or functions (the marks are in `builtins`), every line and
column keeps its place, and library code is not touched. Statements that cannot make an autograd node get no mark.

`marks` has the functions that marked code calls, `syntax` answers questions about source, `marker` inserts the calls,
and `loading` compiles source to code.
"""

from outplace.runtime.instrument.calls import STATEMENTS, Statement
from outplace.runtime.instrument.loading import add_marks, compile_main, compile_marked, lay_over
from outplace.runtime.instrument.marks import bind, publish, put, skip_when_traced, unpublish

__all__ = [
    "STATEMENTS",
    "Statement",
    "add_marks",
    "bind",
    "compile_main",
    "compile_marked",
    "lay_over",
    "publish",
    "put",
    "skip_when_traced",
    "unpublish",
]
