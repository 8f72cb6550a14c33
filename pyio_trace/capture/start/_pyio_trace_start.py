"""Auto-enable: what pyio_trace.pth (to Python 3.19) and pyio_trace.start (from 3.15) call.

Installed beside the package, not in it: with PYIO_TRACE unset an interpreter's
start must not even import the package.
"""

import os


def start() -> None:
    """Trace this process if PYIO_TRACE asks for it.  Never raises."""
    if os.environ.get("PYIO_TRACE"):
        try:
            from pyio_trace.capture.bootstrap import start_from_environment
        except ImportError as problem:
            try:
                os.write(2, f"pyio-trace: not tracing: {problem}\n".encode(errors="replace"))
            except OSError:
                pass  # stderr is closed
        else:
            start_from_environment()
