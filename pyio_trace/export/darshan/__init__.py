"""A log of Darshan 3.5, for PyDarshan, darshan-parser, Drishti and DXT Explorer."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyio_trace.export import Options
    from pyio_trace.join.sources.facade import Log


def write(log: Log, path: str, options: Options, progress: Callable[[int], None] | None) -> list[str]:
    """Writes the log as a Darshan log; see pyio_trace.export.Format."""
    from pyio_trace.export.darshan.contents import Contents
    from pyio_trace.join.pack.new_file import Folder, NewFile

    folder, name = os.path.split(os.path.abspath(path))
    where = Folder(folder)
    with Contents(log, folder, options.imports, progress) as contents, NewFile(where) as new:
        said = contents.write(new.file)
        new.place(name, beside=False)
    return [f"{path}: {said[0]}", *said[1:]]
