"""The files that a repair may read and change. They keep their encoding and line ends."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import os
import stat
import tempfile
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from outplace.errors import OutplaceError
from outplace.files import reading
from outplace.files.naming import under_cwd
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit, apply, parses

if TYPE_CHECKING:
    from outplace.source.write_questions import Inquiry


class Unwritable(Exception):
    """A file cannot be read or written. `line` is set if it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Document:
    """A file's text with `\\n` line ends, and how to encode a new text in the same way."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        try:
            raw, encoding = reading.decode_raw(data)
        except reading.Unreadable as error:
            raise Unwritable(str(error), error.line) from error
        self.bom = data.startswith(codecs.BOM_UTF8)
        self.encoding = "utf-8" if encoding == "utf-8-sig" else encoding
        self.text = reading.with_plain_ends(raw)
        self._raw_lines = reading.lines(raw)
        self.newline = "\r\n" if raw.count("\r\n") * 2 > raw.count("\n") else "\n"
        if "\r" in raw.replace("\r\n", ""):
            self.newline = "\r"
        self._same_ends = self.text.replace("\n", self.newline) == raw

    def encode(self, text: str) -> bytes:
        """A new text as bytes, with the same encoding, mark and line ends. Unchanged lines keep all their bytes."""
        raw = text.replace("\n", self.newline) if self._same_ends else self._with_ends(text)
        return (codecs.BOM_UTF8 if self.bom else b"") + raw.encode(self.encoding)

    def _with_ends(self, text: str) -> str:
        """A new text with the line ends of the old one, which mixes several."""
        old, new = reading.lines(self.text), reading.lines(text)
        result: list[str] = []
        for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal" and len(self._raw_lines) == len(old):
                result += self._raw_lines[start:end]
            else:
                result += [line.replace("\n", self.newline) for line in new[first:last]]
        return "".join(result)


def read(path: str) -> Document:
    """A file from disk."""
    try:
        with open(path, "rb") as stream:
            return Document(stream.read())
    except OSError as error:
        raise Unwritable(f"cannot be read: {(error.strerror or str(error)).lower()}") from error


def write(path: str, data: bytes) -> None:
    """Replaces a file atomically and keeps its mode. A reader sees the old file or the new one, never a part."""
    real = os.path.realpath(path)
    try:
        mode = stat.S_IMODE(os.stat(real).st_mode)
        if not os.access(real, os.W_OK):
            raise Unwritable("cannot be written: it is read-only")
        handle, temporary = tempfile.mkstemp(prefix=".outplace-", dir=os.path.dirname(real) or ".")
    except OSError as error:
        raise Unwritable(f"cannot be written: {(error.strerror or str(error)).lower()}") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, real)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise Unwritable(f"cannot be written: {(error.strerror or str(error)).lower()}") from error
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


class Files:
    """Sources by path: the files on disk, replaced by the texts of repairs in progress."""

    def __init__(
        self, texts: Mapping[str, str] | None = None, may_read: bool = True, like: Files | None = None
    ) -> None:
        """`like`: other files, whose trees are reused for equal texts, and their analysis if all texts are equal."""
        self._texts = dict(texts or {})
        self._codes: dict[str, Code | None] = {}
        self._may_read = may_read
        if like is not None and "inquiry" in vars(like) and self._texts == like._texts:
            self.inquiry = like.inquiry
        if like is not None:
            self._codes = {
                path: code for path, code in like._codes.items() if self._texts.get(path) == like._texts.get(path)
            }

    @cached_property
    def inquiry(self) -> Inquiry:
        """The analysis of these texts, for questions about single writes."""
        from outplace.source.write_questions import Inquiry  # imported only for a repair

        return Inquiry({path: self._texts[path] for path in self.paths})

    @property
    def paths(self) -> list[str]:
        """The files whose text is known."""
        return list(self._texts)

    def text(self, path: str) -> str:
        """The present text."""
        if path not in self._texts and self._may_read:
            self._texts[path] = read(path).text
        return self._texts[path]

    def code(self, path: str) -> Code | None:
        """The parsed file; None if it cannot be read or parsed."""
        if path not in self._codes:
            try:
                self._codes[path] = Code(path, self.text(path))
            except (Unwritable, KeyError, SyntaxError, ValueError, RecursionError):
                self._codes[path] = None
        return self._codes[path]

    def codes(self, word: str) -> list[Code]:
        """The files that contain this word and can be parsed."""
        return [code for path in self.paths if word in self._texts[path] and (code := self.code(path)) is not None]

    def edited(self, edits: Mapping[str, tuple[Edit, ...]]) -> Files | None:
        """The files with these edits; None if nothing changes, or if the result does not parse."""
        texts = {path: apply(self.text(path), changes) for path, changes in edits.items()}
        if any(not parses(text) for text in texts.values()) or all(self.text(p) == text for p, text in texts.items()):
            return None
        new_files = Files({**self._texts, **texts}, self._may_read)
        new_files._codes = {path: code for path, code in self._codes.items() if path not in texts}
        return new_files


def write_all(data: Mapping[str, bytes], before: Mapping[str, Document]) -> None:
    """Writes all files or none. If one cannot be written, the earlier ones are restored."""
    written: list[str] = []
    try:
        for path, content in data.items():
            if read(path).data != before[path].data:
                raise Unwritable("it has been changed meanwhile")
            write(path, content)
            written.append(path)
    except BaseException as error:
        for changed in written:
            write(changed, before[changed].data)
        if not isinstance(error, Unwritable):
            raise
        raise OutplaceError(f"{under_cwd(path)}: {error}; nothing was changed") from error
