"""Standard output of the commands: it may be closed, on a full disk, or a pipe whose reader has gone."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from pyio_trace.errors import ConfigError


def open_missing() -> None:
    """Opens /dev/null in place of standard streams that are closed.

    Otherwise a log or --output would get the number 0, 1 or 2, and messages
    would be written into it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Gives standard output, and flushes it.

    Raises ConfigError unwritable-output if it is closed or cannot be written,
    BrokenPipeError if nobody reads it any more.
    """
    if sys.stdout is None:
        raise ConfigError("unwritable-output", "standard output is closed; redirect it to a file or a pipe")
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard()
        message = f"standard output cannot be written: {error.strerror or error}"
        raise ConfigError("unwritable-output", message) from None


def bytes_of(out: TextIO, kind: str) -> BinaryIO:
    """Where the bytes of a table go: text in the stream's encoding, other formats as they are, in UTF-8."""
    if kind != "text" or codecs.lookup(out.encoding).name == "utf-8":
        return out.buffer
    return codecs.EncodedFile(out.buffer, "utf-8", out.encoding, "backslashreplace")


def discard() -> None:
    """Points standard output at /dev/null.  Python writes what is left in its buffer at exit, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
