"""Puts marks into the user's own source, as it is loaded: before each statement, and where a function returns.

The program stays what it is: no name is added to its modules or functions (the marks live in `builtins`), every line
and column keeps its place, and library code is not touched. Statements that cannot make an autograd node get no mark.

`marks` are the functions that such code calls, `syntax` answers questions about source, `marker` puts the calls in,
`loading` is where source becomes code.
"""

from outplace.runtime.instrument.loading import add_marks, compile_main, compile_marked, lay_over
from outplace.runtime.instrument.marks import bind, heed_dynamo, publish, put, unpublish
from outplace.runtime.instrument.statements import STATEMENTS, Statement

__all__ = [
    "STATEMENTS",
    "Statement",
    "add_marks",
    "bind",
    "compile_main",
    "compile_marked",
    "heed_dynamo",
    "lay_over",
    "publish",
    "put",
    "unpublish",
]
