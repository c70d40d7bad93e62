"""Reads Python source as Python does, or says why it cannot."""

from __future__ import annotations

import io
import tokenize

LARGEST = 5_000_000
"""Bytes. Larger files are generated code and are skipped."""

LARGEST_NOTEBOOK = 100_000_000
"""Bytes. Most of a large notebook is pictures in its output."""

TORCH = b"torch"
"""Files without it have no tensors of their own and are not even parsed."""


def too_large(path: str, size: int) -> str | None:
    """The message for a file that is skipped because of its size; None if it is not."""
    if size <= (LARGEST_NOTEBOOK if path.endswith(".ipynb") else LARGEST):
        return None
    return f"skipped: {size / 1e6:.1f} MB is too large for source that a person wrote"


class Unreadable(Exception):
    """A file is not valid Python text. `line`: where, if that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def decode(data: bytes) -> str:
    """Python source as text, with `\\n` at the end of every line."""
    return with_plain_ends(decode_raw(data)[0])


def decode_raw(data: bytes) -> tuple[str, str]:
    """Python source as text, without its byte order mark; and its encoding, by that mark or the coding line."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:  # an unknown encoding, or one that contradicts the byte order mark
        raise Unreadable(f"SyntaxError: {error.msg}", 1) from error
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"not {encoding}: byte 0x{data[error.start]:02x} cannot be decoded", line) from error
    except (UnicodeError, LookupError) as error:  # a codec that is not for text
        raise Unreadable(f"cannot be decoded as {encoding}: {error}") from error


def with_plain_ends(text: str) -> str:
    """A text with `\\n` at the end of every line."""
    return str(io.IncrementalNewlineDecoder(None, translate=True).decode(text, final=True))


def lines(text: str) -> list[str]:
    """The lines with their line ends. A form feed ends no line, as in editors and unlike `str.splitlines`."""
    return io.StringIO(text, newline="").readlines() if text else []
