"""The files of a project, read and parsed once, and found by the names they are imported under."""

from __future__ import annotations

import ast
import os
import tokenize
import warnings
from collections.abc import Sequence

from outplace.source.values import Scope


class Module:
    """One source file. `scope` is filled when its top level is first interpreted."""

    def __init__(self, path: str, source: str, name: str) -> None:
        self.path, self.source, self.name = path, source, name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes and the like are not ours to tell
            self.tree = ast.parse(source, path)
        self.lines = source.splitlines()
        self.scope = Scope()
        self.started = False

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        if os.path.basename(self.path) == "__init__.py":
            return self.name
        return self.name.rpartition(".")[0]


class Project:
    """Source files by path and by import name, parsed once."""

    def __init__(self, roots: Sequence[str] = ()) -> None:
        self._roots = [os.path.abspath(root) for root in roots]
        self._modules: dict[str, Module | None] = {}
        self.read: list[str] = []
        """Files that were read for imports, in order; `analysis` notes which belong to which result."""

    def open(self, path: str, source: str) -> Module:
        """The module of a file that is being checked."""
        absolute = os.path.abspath(path)
        module = Module(path, source, _module_name(absolute))
        self._modules[absolute] = module
        return module

    def find(self, name: str, importer: Module) -> Module | None:
        """The project's own module of that name, as seen from the importing file; None for anything else."""
        relative = os.path.join(*name.split("."))
        for folder in self._search(importer):
            for path in (os.path.join(folder, relative + ".py"), os.path.join(folder, relative, "__init__.py")):
                if os.path.isfile(path):
                    return self._load(path, name)
        return None

    def _search(self, importer: Module) -> list[str]:
        """The folder above the importer's outermost package, the importer's own folder, and the roots."""
        here = os.path.dirname(os.path.abspath(importer.path))
        top = here
        while os.path.isfile(os.path.join(top, "__init__.py")) and os.path.dirname(top) != top:
            top = os.path.dirname(top)
        return list(dict.fromkeys([top, here, *self._roots]))

    def _load(self, path: str, name: str) -> Module | None:
        if path not in self._modules:
            self._modules[path] = None
            try:
                with tokenize.open(path) as file:
                    source = file.read()
                if len(source) < 2_000_000:
                    self._modules[path] = Module(path, source, _module_name(path))
            except (OSError, SyntaxError, ValueError, RecursionError, UnicodeDecodeError, MemoryError):
                pass
        if path not in self.read:
            self.read.append(path)
        return self._modules[path]


def _module_name(path: str) -> str:
    """The dotted name, by the folders that are packages."""
    folder, filename = os.path.split(path)
    parts = [] if filename == "__init__.py" else [filename.removesuffix(".py")]
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    return ".".join(parts)
