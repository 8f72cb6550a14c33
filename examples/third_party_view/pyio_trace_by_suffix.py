"""Sums by the ending of file names."""

from __future__ import annotations

from pathlib import PurePath

from pyio_trace.views import ByKey


class BySuffix(ByKey):
    """Rows without a file, and files without an ending, are left out."""

    key = ("file",)
    of_files = True  # collects the names of files

    def shown(self, keys, log, names):
        return [PurePath(name).suffix or None for name in names.of(keys["file"], log)]
