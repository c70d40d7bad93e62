"""Files as text: what Python itself would read, or why it could not."""

from __future__ import annotations

import io
import tokenize

LARGEST = 5_000_000
"""Bytes; larger files are generated, and are passed over."""

LARGEST_NOTEBOOK = 100_000_000
"""Bytes; nearly all of a large notebook is the pictures in its output."""

WORD = b"torch"
"""Files without it have no tensors of their own and are not even parsed."""


def too_large(path: str, size: int) -> str | None:
    """What to say of a file that is passed over for its size; None where it is not."""
    if size <= (LARGEST_NOTEBOOK if path.endswith(".ipynb") else LARGEST):
        return None
    return f"skipped: {size / 1e6:.1f} MB is too large for source that a person wrote"


class Unreadable(Exception):
    """A file is not what its name promises; `line` where that is known."""

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
    except SyntaxError as error:  # an unknown encoding, or one that the mark contradicts
        raise Unreadable(f"SyntaxError: {error.msg}", 1) from error
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"not {encoding}: byte 0x{data[error.start]:02x} cannot be decoded", line) from error
    except (UnicodeError, LookupError) as error:  # codecs that are not for text, or that know no positions
        raise Unreadable(f"cannot be decoded as {encoding}: {error}") from error


def with_plain_ends(text: str) -> str:
    """A text with `\\n` at the end of every line."""
    return str(io.IncrementalNewlineDecoder(None, translate=True).decode(text, final=True))
