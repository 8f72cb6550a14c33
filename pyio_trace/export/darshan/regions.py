"""The file of a Darshan log: a header, and regions that are compressed while they are made."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np

from pyio_trace.darshan_format import HEADER, MAGIC, MODULE_NAMES, VERSION, ZLIB

#: A higher level makes segments, which are most of a log, hardly smaller and takes twice as long.
_LEVEL = 3
#: Bytes that are compressed at once.
_AT_ONCE = 1 << 18


class LogFile:
    """Writes the regions one after another, in the order job, names, modules by number, then close()."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._header = np.zeros((), HEADER)
        self._header["version"], self._header["magic"], self._header["comp_type"] = VERSION, MAGIC, ZLIB
        file.write(self._header.tobytes())
        self._at = HEADER.itemsize

    def job(self, region: bytes) -> None:
        """Writes the job, with command and mounts."""
        self._region([region])

    def names(self, records: Iterable[bytes]) -> None:
        """Writes the name records."""
        self._header["names"] = self._region(records)

    def module(self, name: str, version: int, records: Iterable[bytes], partial: bool) -> None:
        """Writes a module that has records; partial: some are missing, or some calls are not in them."""
        number = MODULE_NAMES.index(name)
        self._header["modules"][number] = self._region(records)
        self._header["versions"][number] = version
        if partial:
            self._header["partial_flag"] |= np.uint64(1 << number)

    def close(self) -> int:
        """Writes the header.  Returns the bytes of the file."""
        self._file.seek(0)
        self._file.write(self._header.tobytes())
        self._file.flush()
        return self._at

    def _region(self, parts: Iterable[bytes]) -> tuple[int, int]:
        """(where it begins, its compressed bytes)."""
        begin, compressor = self._at, zlib.compressobj(_LEVEL)
        waiting: list[bytes] = []
        size = 0
        for part in parts:
            waiting.append(part)
            size += len(part)
            if size >= _AT_ONCE:
                self._put(compressor.compress(b"".join(waiting)))
                waiting, size = [], 0
        self._put(compressor.compress(b"".join(waiting)) + compressor.flush())
        return begin, self._at - begin

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._at += len(data)
