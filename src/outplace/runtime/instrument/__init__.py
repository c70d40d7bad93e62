"""Puts marks into the user's own source, as it is loaded: before each statement, and where a function returns.

The program stays what it is: no name is added to its modules or functions (the marks live in `builtins`), every line
and column keeps its place, and library code is not touched. Statements that cannot make an autograd node get no mark.

`marks` are the functions that such code calls, `syntax` answers questions about source, `marker` puts the calls in,
`loading` is where source becomes code.
"""

from outplace.runtime.instrument.loading import add_marks, compile_main, compile_marked, install, lay_over, uninstall
from outplace.runtime.instrument.marks import heed_dynamo, publish, put
from outplace.runtime.instrument.statements import STATEMENTS, Statement

__all__ = [
    "STATEMENTS",
    "Statement",
    "add_marks",
    "compile_main",
    "compile_marked",
    "heed_dynamo",
    "install",
    "lay_over",
    "publish",
    "put",
    "uninstall",
]
