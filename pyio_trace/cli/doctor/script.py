"""A script, as it would be traced: run to its end into a temporary log, and looked at just before it goes.

What a script imports, and so what is hooked in it, shows only when it runs.
The traced process stops at its exit (capture/hold.py), all it has loaded still
in place, until it has been looked at from here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from pyio_trace.cli.doctor.memory import DoctorError
from pyio_trace.cli.doctor.process import examine
from pyio_trace.cli.doctor.report import Instrument, Report
from pyio_trace.config import HOLD_VARIABLE, PREFIX


def try_out(script: str, arguments: Sequence[str]) -> Report:
    """Run it and look.  Raises DoctorError."""
    with tempfile.TemporaryDirectory(prefix="pyio-doctor-") as folder:
        words = [sys.executable, "-m", "pyio_trace", "-q", "-o", os.path.join(folder, "run.pyio"), script, *arguments]
        told_read, told_write = os.pipe()
        go_read, go_write = os.pipe()
        env = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX.rstrip("_"))}
        env[HOLD_VARIABLE] = f"{told_write},{go_read}"
        running = subprocess.Popen(words, env=env, stdout=sys.stderr, pass_fds=(told_write, go_read))
        os.close(told_write)
        os.close(go_read)
        report = None
        try:
            report = _look(told_read)
        finally:
            os.close(go_write)  # it goes on
            os.close(told_read)
            status = running.wait()
    if report is None:
        raise DoctorError(
            "script-not-seen",
            f"{script} ended ({_ending(status)}) without passing Python's exit: nothing was looked at",
        )
    report.facts.insert(0, ("script", f"{script} has run to its end, {_ending(status)}"))
    return report


def _look(told: int) -> Report | None:
    message = b""
    while not message.endswith(b"\n"):
        part = os.read(told, 65536)
        if not part:
            return None
        message += part
    heard = json.loads(message)
    return examine(int(heard["pid"]), [Instrument(*one) for one in heard["instruments"]])


def _ending(status: int) -> str:
    return f"status {status}" if status >= 0 else f"signal {-status}"
