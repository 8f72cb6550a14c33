"""For `pyio-trace doctor SCRIPT` alone: the process waits at its exit until it has been looked at.

HOLD_VARIABLE names two pipes: on one this process says that it is there and
how its instruments are, on the other it waits for the end of the file.
"""

from __future__ import annotations

import atexit
import os
import sys

from pyio_trace import native
from pyio_trace.capture import engine, imports, threads
from pyio_trace.config import HOLD_VARIABLE


def hold_at_exit() -> None:
    """If the doctor wants that.  Children are not held."""
    said = os.environ.pop(HOLD_VARIABLE, None)
    if said is None:
        return
    tell, wait = (int(word) for word in said.split(","))
    for descriptor in (tell, wait):
        os.set_inheritable(descriptor, False)
    atexit.register(_hold, os.getpid(), tell, wait)  # registered first, so it comes last


def instruments() -> list[tuple[str, str, str]]:
    """(name, state, reason) of each: active; waiting for the import of a module; off, and why."""
    core = native.core
    if core is None or not core.state()["active"]:
        return [("all", "off", "tracing is not on")]
    why_not = core.state()["no_file_objects"]
    files = ("file objects", "off", why_not) if why_not else ("file objects", "active", "")
    mapped = _after_import("mmap objects", "mmap", why_not)
    carried = [
        _after_import(name, module, None, threads.installed(module)) for module, name in threads.CARRIED.items()
    ]
    return [files, mapped, *carried, *engine.states()]


def _after_import(name: str, module: str, why_not: str | None, done: bool = True) -> tuple[str, str, str]:
    if why_not:
        return name, "off", why_not
    if module not in sys.modules or imports.watched(module):
        return name, "waiting", f"{module} has not been imported"
    return (name, "active", "") if done else (name, "off", f"{module} could not be wrapped")


def _hold(owner: int, tell: int, wait: int) -> None:
    if os.getpid() != owner:
        return
    states = instruments()
    import json  # after that: it is watched for, too

    try:
        os.write(tell, json.dumps({"pid": owner, "instruments": states}).encode() + b"\n")
        while os.read(wait, 1):
            continue
    except OSError:
        pass  # the doctor has gone, or the program has closed what it did not open
