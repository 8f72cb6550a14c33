"""Runs on several machines, and on other file systems, made of real runs on this one."""

from __future__ import annotations

from pathlib import Path

from pyio_trace.insights.file_systems import FileSystems
from pyio_trace.join.processes.mounts import parsed, parsed_options
from pyio_trace.log import layout

#: What a traced program runs to start itself once more with an argument, in a log of its own, and to wait for it.
IN_OTHER_LOG = """
import os, subprocess, sys
own = {name: text for name, text in os.environ.items() if name not in ("PYIO_TRACE_LOG", "PYIO_TRACE_FINAL")}
own["PYIO_TRACE_OUTPUT"] = os.path.abspath("logs/2.pyio")
subprocess.run([sys.executable, __file__, "other"], env=own, check=True)
"""


def mounted(point: object, kind: str, options: str = "rw") -> FileSystems:
    """The file systems of a machine that has one mount; options: those of the file system."""
    text = f"1 0 0:1 / {point} rw - {kind} server:/x {options}"
    return FileSystems(parsed(text), parsed_options(text))


def moved_elsewhere(log: Path) -> None:
    """Makes a live log one of another machine."""
    with log.open("r+b") as file:
        for field, value in {"host": b"elsewhere", "boot_id": b"0" * 36}.items():
            kind, at = layout.HEADER.fields[field][:2]
            file.seek(int(at))
            file.write(value.ljust(kind.itemsize, b"\0"))
