"""For `pyio-trace doctor SCRIPT`: the traced process waits at its exit until the doctor has examined it.

DOCTOR_VARIABLE names two pipes.  On one this process reports its pid and its
instruments; on the other it waits for end of file.
"""

from __future__ import annotations

import atexit
import os
import stat
import sys

from pyio_trace import native
from pyio_trace.capture.instrumentation import import_hooks, instrument_registry
from pyio_trace.config import DOCTOR_VARIABLE


def wait_at_exit() -> None:
    """Wait at exit if the variable names two inherited pipes; else the doctor has not set it.  Children do not wait."""
    pipes = _pipes(os.environ.pop(DOCTOR_VARIABLE, ""))
    if pipes is None:
        return
    report, wait = pipes
    for descriptor in (report, wait):
        os.set_inheritable(descriptor, False)
    # Registered first, so it is called last.
    atexit.register(_report_and_wait, os.getpid(), report, wait, _identity(report), _identity(wait))


def _pipes(text: str) -> tuple[int, int] | None:
    """ "3,4" as (3, 4), if both are pipes of this process."""
    words = text.split(",")
    if len(words) != 2 or not all(word.isascii() and word.isdigit() and len(word) < 8 for word in words):
        return None
    report, wait = map(int, words)
    try:
        are_pipes = all(stat.S_ISFIFO(os.fstat(descriptor).st_mode) for descriptor in (report, wait))
    except OSError:
        return None
    return (report, wait) if are_pipes and min(report, wait) > 2 else None


def instruments() -> list[tuple[str, str, str]]:
    """(name, state, reason) of each instrument; state: active, waiting (for an import) or off."""
    core = native.core
    if core is None or not core.state()["active"]:
        return [("all", "off", "tracing is not on")]
    why_not = core.state()["no_file_objects"]
    files = ("file objects", "off", why_not) if why_not else ("file objects", "active", "")
    mapped = _after_import("mmap objects", "mmap", why_not)
    carriers = [
        _after_import(name, module, None, instrument_registry.carries(module))
        for module, name in instrument_registry.CARRIERS.items()
    ]
    return [files, mapped, *carriers, *instrument_registry.states()]


def _after_import(name: str, module: str, why_not: str | None, done: bool = True) -> tuple[str, str, str]:
    if why_not:
        return name, "off", why_not
    if module not in sys.modules or import_hooks.is_watched(module):
        return name, "waiting", f"{module} has not been imported"
    return (name, "active", "") if done else (name, "off", f"{module} could not be wrapped")


def _identity(descriptor: int) -> tuple[int, int] | None:
    """The file that has this number: its device and inode."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _report_and_wait(owner: int, report: int, wait: int, *before: tuple[int, int] | None) -> None:
    if os.getpid() != owner or (_identity(report), _identity(wait)) != before:
        return  # a child, or the program has closed what it did not open, and the numbers may be those of its own files
    states = instruments()
    import json  # not earlier: json has an instrument, whose state this import would change

    try:
        os.write(report, json.dumps({"pid": owner, "instruments": states}).encode() + b"\n")
        while os.read(wait, 1):
            continue
    except OSError:
        pass  # the doctor is gone, or the program has closed descriptors that it did not open
