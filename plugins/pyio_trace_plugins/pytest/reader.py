"""A process that reads the log for the plugin, so that the tests' process imports neither numpy nor pyarrow.

Requests and answers are lines of JSON on standard input and output.  The process
is no child of the tests' process, because a test may wait for all its children.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from pyio_trace import suppress
from pyio_trace.errors import LogError

_SERVE = "import os; os.fork() and os._exit(0); from pyio_trace_plugins.pytest.serve import main; main()"
#: Variables that would trace the reader, or measure it.
_NOT_FOR_IT = ("PYIO_TRACE", "COV_", "COVERAGE_")


class Reader:
    """The process, from start() or the first question on."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    @suppress()
    def start(self) -> None:
        """Starts it before the first question."""
        if self._process is None:
            self._process = _started()

    @suppress()
    def ask(self, **request: Any) -> Any:
        """The answer of serve.answer() to a request.  Raises LogError."""
        self.start()
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            raise LogError("log-unreadable", f"{request['log']}: the process that reads it has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise LogError("log-unreadable", answer["error"])
        return answer["result"]

    @suppress()
    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None and process.stdout is not None:
            for stream in (process.stdin, process.stdout):
                try:
                    stream.close()
                except BrokenPipeError:
                    pass


def _started() -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_IT)}
    words = [sys.executable, "-P", "-c", _SERVE]
    process = subprocess.Popen(
        words, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    process.wait()  # it has gone on as another process
    return process
