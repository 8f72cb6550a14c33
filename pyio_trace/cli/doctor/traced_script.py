"""Examines a script: runs it to its end, traced into a temporary log, and looks at the process just before it exits.

What a script imports, and so what can be hooked, shows only when it runs.  The
traced process waits at its exit (capture/runtime/doctor_wait.py), with all its
libraries still loaded, until this process has examined it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from pyio_trace.cli.doctor.diagnosis import Instrument, Report
from pyio_trace.cli.doctor.live_process import examine
from pyio_trace.cli.doctor.process_memory import DoctorError
from pyio_trace.config import DOCTOR_VARIABLE, PREFIX


def try_out(script: str, arguments: Sequence[str]) -> Report:
    """Run it and examine the process.  Raises DoctorError."""
    with tempfile.TemporaryDirectory(prefix="pyio-doctor-") as folder:
        words = [sys.executable, "-m", "pyio_trace", "-q", "-o", os.path.join(folder, "run.pyio"), script, *arguments]
        report_read, report_write = os.pipe()
        go_read, go_write = os.pipe()
        env = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX.rstrip("_"))}
        env[DOCTOR_VARIABLE] = f"{report_write},{go_read}"
        running = subprocess.Popen(words, env=env, stdout=sys.stderr, pass_fds=(report_write, go_read))
        os.close(report_write)
        os.close(go_read)
        report = None
        try:
            report = _receive(report_read)
        finally:
            os.close(go_write)  # the script goes on
            os.close(report_read)
            status = running.wait()
    if report is None:
        raise DoctorError(
            "script-not-seen",
            f"{script} ended ({_ending(status)}) before Python's own exit, so it could not be examined",
        )
    report.facts.insert(0, ("script", f"{script} has run to its end, {_ending(status)}"))
    return report


def _receive(descriptor: int) -> Report | None:
    message = b""
    while not message.endswith(b"\n"):
        part = os.read(descriptor, 65536)
        if not part:
            return None
        message += part
    received = json.loads(message)
    return examine(int(received["pid"]), [Instrument(*one) for one in received["instruments"]])


def _ending(status: int) -> str:
    return f"status {status}" if status >= 0 else f"signal {-status}"
