"""Files of at most some size: written with fewer rows until they fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO

from pyio_trace.errors import ConfigError
from pyio_trace.join.pack.new_file import Folder, NewFile
from pyio_trace.units import size


class _Full(Exception):
    """The file would be too large."""


class Limited:
    """A file that takes only so many bytes."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._most = file, most
        self.written = 0

    def write(self, data: bytes) -> int:
        """Writes bytes.  Raises OSError."""
        self.written += len(data)
        if self.written > self._most:
            raise _Full
        return self._file.write(data)

    def flush(self) -> None:
        """For gzip."""


def write_limited(path: str, most: int, rows: int, write: Callable[[Limited, int], None]) -> int:
    """Writes the file `path`, which does not exist, of at most `most` bytes; returns how many it has.

    write: writes the longest rows, as many as it is told, and what is always
    there; rows: how many it is told first.  Raises OSError, ConfigError bad-size.
    """
    folder, name = os.path.split(os.path.abspath(path))
    with NewFile(Folder(folder)) as new:
        while True:
            limited = Limited(new.file, most)
            try:
                write(limited, rows)
            except _Full:
                if not rows:
                    what = f"--max-size: {size(most)} is too little for {name} even without single operations"
                    raise ConfigError("bad-size", what) from None
                rows = rows * 4 // 5
                new.file.seek(0)
                new.file.truncate()
                continue
            new.place(name, beside=False)
            return limited.written
