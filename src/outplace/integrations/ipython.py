"""The IPython extension: after `%load_ext outplace` a cell that fails shows its diagnosis below the traceback.

Cells are compiled with marks, as `outplace run` compiles files, so recording is cheap. If code was loaded before, it
has no marks, and each node is tagged instead. So put `%load_ext outplace` into the first cell.
"""

from __future__ import annotations

import ast
import contextlib
import html
import linecache
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

from IPython.core.error import UsageError

from outplace.files import naming
from outplace.model import Diagnosis, is_silent
from outplace.report import reporter
from outplace.report.console import for_stream
from outplace.report.terminal import as_text, render
from outplace.runtime import instrument
from outplace.runtime.errors import dispatch
from outplace.runtime.program import lifecycle
from outplace.runtime.record.user_files import own_files

_MAGIC = "outplace"
_OF_A_MAGIC = "<unknown>"
"""The file name of source that IPython parses for a magic (`%%time`)."""
_HEADER = re.compile(r"^(--- |\+\+\+ )(?:[ab]/)?(.+)$", re.MULTILINE)
_TIMED = ("<timed exec>", "<timed eval>")


class Extension:
    """The extension in one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._on = False
        self._this_cell_only = False
        self._compiler: type = type(shell.compile)
        self._marks = _CellMarks(shell.compile)

    # -- loading ----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Registers with the shell and starts recording."""
        shell = self._shell
        for cell in list(shell.compile._filename_map):  # cells that have run already
            _claim(cell)
        shell.compile.__class__ = _naming(self._compiler, self._marks)
        shell.ast_transformers.append(self._marks)
        shell.input_transformers_cleanup.append(_without_magic)
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)
        shell.showtraceback = self._show_traceback
        shell.register_magic_function(self.magic, "line_cell", _MAGIC)
        self._start()
        self._on = True

    def unload(self) -> None:
        """Removes everything from the shell."""
        shell = self._shell
        self._stop()
        shell.compile.__class__ = self._compiler
        with contextlib.suppress(ValueError):  # IPython removes a transformer that has failed
            shell.ast_transformers.remove(self._marks)
        shell.input_transformers_cleanup.remove(_without_magic)
        shell.events.unregister("pre_run_cell", self._before_cell)
        shell.events.unregister("post_run_cell", self._after_cell)
        del shell.showtraceback
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop(_MAGIC, None)

    def _start(self) -> None:
        unmarked = _has_unmarked_code(self._shell.user_ns)
        lifecycle.attach("tags" if unmarked else "marks", reporter)
        self._marks.enabled = True

    def _stop(self) -> None:
        self._on = self._marks.enabled = False
        lifecycle.detach()

    # -- the magics -------------------------------------------------------------------------------------------

    def magic(self, line: str, cell: str | None = None) -> None:
        """Find the lines behind PyTorch's in-place errors.

        \b
        %outplace        is it recording?
        %outplace on     record all cells (this is what %load_ext outplace does)
        %outplace off    stop recording
        %%outplace       record this cell, even when off, and say so if nothing was found
        """
        word = line.strip()
        if cell is not None:  # on the first line, `_without_magic` handles it
            raise UsageError("%%outplace must be the first line of its cell")
        if word == "on":
            self._start()
            self._on = True
        elif word == "off":
            self._stop()
        elif word:
            raise UsageError(f"%outplace takes on, off or nothing, not {word!r}")
        print(f"outplace is {'on' if self._on else 'off'}")

    def _before_cell(self, info: Any) -> None:
        self._this_cell_only = _has_magic(info.raw_cell)
        if self._this_cell_only and not self._on:
            self._start()

    def _after_cell(self, result: Any) -> None:
        """Shows the bugs without a traceback: silent ones, and errors that the cell caught."""
        requested, self._this_cell_only = self._this_cell_only, False
        not_shown = list(dispatch.not_shown)
        dispatch.not_shown.clear()
        silent = [diagnosis for diagnosis in not_shown if is_silent(diagnosis)]
        caught = [diagnosis for diagnosis in not_shown if diagnosis not in silent]
        self._display("Errors that the cell caught:", caught)
        self._display("No error was raised here, but the gradient is wrong:", silent)
        if requested and result.success and not not_shown:
            print("outplace: no in-place bug in this cell.")
        if requested and not self._on:
            self._stop()

    # -- showing ----------------------------------------------------------------------------------------------

    def _show_traceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        """IPython's traceback, with the diagnosis below it instead of inside."""
        error = (exc_tuple or sys.exc_info())[1]
        diagnoses = dispatch.take_diagnoses(error) if isinstance(error, BaseException) and _is_for_us(error) else []
        type(self._shell).showtraceback(self._shell, exc_tuple, *args, **kwargs)
        self._display("", diagnoses)

    def _display(self, heading: str, diagnoses: Sequence[Diagnosis]) -> None:
        if not diagnoses:
            return
        with self._marks.names_known():
            diagnoses = [self._marks.renamed(diagnosis) for diagnosis in diagnoses]
            if not hasattr(self._shell, "kernel"):
                print(f"\n{heading}" if heading else "")
                render(diagnoses, for_stream(sys.stdout))
                return
            plain = as_text(diagnoses)
            rich = _fragment(diagnoses, plain)
        title = f"<p>{html.escape(heading)}</p>" if heading else ""
        bundle = {"text/html": title + rich, "text/plain": f"{heading}\n\n{plain}" if heading else plain}
        self._shell.display_pub.publish(bundle)


def _is_for_us(error: BaseException) -> bool:
    """Is outplace on, or does the error have a diagnosis already (from `outplace.watch()` in a cell)?"""
    return lifecycle.attached() or any(dispatch.of(link) for link in dispatch.chain(error))


def _fragment(diagnoses: Sequence[Diagnosis], plain: str) -> str:
    try:
        from outplace.report.html import fragment
    except ImportError:
        return f"<pre>{html.escape(plain)}</pre>"
    return str(fragment(diagnoses))


def _has_magic(cell: str) -> bool:
    return cell.lstrip("\n").split("\n", 1)[0].split() == [f"%%{_MAGIC}"]


def _without_magic(lines: list[str]) -> list[str]:
    """Makes `%%outplace` a comment. The cell then runs as any other, with the same line numbers."""
    if lines and _has_magic(lines[0]):
        return [f"# {lines[0]}", *lines[1:]]
    return lines


# -- cells ----------------------------------------------------------------------------------------------------------


class _CellMarks:
    """Puts marks into cells, as an AST transformer of IPython. Knows the names of cells."""

    def __init__(self, compiler: Any) -> None:
        self.enabled = False
        self._compiler = compiler
        self._cell = ""
        self._source = ""
        self.file = ""
        """The name of the file that the next tree to be marked is compiled as."""

    def cell(self, name: str, raw: str) -> None:
        """Sets the file name and the source of the cell that runs next."""
        self._cell = self.file = name
        self._source = raw
        _claim(name)

    def visit(self, tree: ast.AST) -> ast.AST:
        """Called by IPython."""
        if self.enabled and isinstance(tree, ast.Module):
            with contextlib.suppress(RecursionError):  # a very deep expression runs without marks
                instrument.add_marks(tree, self.file)
        return tree

    def part(self, tree: ast.AST, source: str) -> ast.AST:
        """Prepares a part of the cell that a magic (`%%time`) runs: it keeps its line numbers in the cell."""
        self.file = f"{self._cell.removesuffix('>')}-timed{'>' if self._cell.startswith('<') else ''}"
        lines = self._source.splitlines()
        first = next((line for line in source.splitlines() if line.strip()), "")
        above = next((number for number, line in enumerate(lines) if line == first), 0)
        ast.increment_lineno(tree, above)
        cell_lines = [f"{line}\n" if number >= above else f"# {line}\n" for number, line in enumerate(lines)]
        linecache.cache[self.file] = (len(self._source), None, cell_lines, self.file)
        self._compiler._filename_map[self.file] = self._compiler._filename_map.get(self._cell, 0)
        _claim(self.file)
        return tree

    @contextlib.contextmanager
    def names_known(self) -> Any:
        """A context in which reports name cells by their numbers."""
        naming.cell_name = self._name
        try:
            yield
        finally:
            naming.cell_name = None

    def renamed(self, diagnosis: Diagnosis) -> Diagnosis:
        """The diagnosis with cell names in the headers of its diffs."""

        def header(match: re.Match[str]) -> str:
            cell = self._name(match[2])
            return match[0] if cell is None else f"{match[1]}{cell}"

        fixes = (replace(fix, diff=fix.diff and _HEADER.sub(header, fix.diff)) for fix in diagnosis.fixes)
        return replace(diagnosis, fixes=tuple(fixes))

    def _name(self, file: str) -> str | None:
        words = self._compiler.format_code_name(file)
        return None if words is None else " ".join(words)


def _claim(cell: str) -> None:
    """Marks a cell as user code, also if it is in no file (in a terminal)."""
    if cell.startswith("<"):
        own_files.claim(cell)


def _naming(kind: Any, marks: _CellMarks) -> type:
    """The shell's own compiler, which also tells `marks` what it names and parses."""

    class Compiler(kind):  # type: ignore[misc]
        def cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> Any:
            name = super().cache(transformed_code, number, raw_code=raw_code)
            marks.cell(name, raw_code or transformed_code)
            return name

        def ast_parse(self, source: str, filename: str = _OF_A_MAGIC, symbol: str = "exec") -> Any:
            tree = super().ast_parse(source, filename, symbol)
            return marks.part(tree, source) if filename == _OF_A_MAGIC else tree

        def __call__(self, source: Any, filename: str, symbol: str, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(source, marks.file if filename in _TIMED else filename, symbol, *args, **kwargs)

    return Compiler


def _has_unmarked_code(namespace: dict[str, Any]) -> bool:
    """Is there user code that was loaded before cells and modules got marks?"""
    marked = {statement.file for statement in instrument.STATEMENTS}
    modules = [module for module in list(sys.modules.values()) if _file_of(module) and own_files[_file_of(module)]]
    spaces: Iterable[dict[str, Any]] = (namespace, *map(vars, modules))
    return any(own_files[file] and file not in marked for space in spaces for file in _files(list(space.values())))


def _file_of(module: Any) -> str:
    file = getattr(module, "__file__", None)
    return os.fspath(file) if isinstance(file, str) else ""


def _files(values: list[Any]) -> Iterable[str]:
    """The files that define these functions, and the methods of these classes."""
    for value in values:
        for function in vars(value).values() if isinstance(value, type) else (value,):
            if isinstance(function, FunctionType):
                yield function.__code__.co_filename


_loaded: dict[int, Extension] = {}


def load(shell: Any) -> None:
    """`%load_ext outplace`."""
    if id(shell) not in _loaded:
        _loaded[id(shell)] = Extension(shell)
        _loaded[id(shell)].load()


def unload(shell: Any) -> None:
    """`%unload_ext outplace`."""
    if id(shell) in _loaded:
        _loaded.pop(id(shell)).unload()
