"""What pyio_trace.pth (to Python 3.19) and pyio_trace.start (from 3.15) call: auto-enable, and the early launch.

Installed beside the package, not in it: where nothing is asked of us, an interpreter's start must not even import the
package.
"""

import os
import sys


def start() -> None:
    """Become the program that -m pyio_trace is to trace, or trace this one if PYIO_TRACE asks for it.  Never raises."""
    if _is_launcher():
        _launch()
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


def _is_launcher() -> bool:
    """Whether this interpreter has been started as `python [options] -m pyio_trace`, and means us by that."""
    ours = len(sys.orig_argv) - len(sys.argv) + 1
    if sys.argv[:1] != ["-m"] or sys.orig_argv[:ours][-2:] != ["-m", "pyio_trace"]:
        return False
    if "pyio_trace" in sys.modules:
        return False  # it has been tried: in a virtual environment .pth files are read twice
    return not (os.path.exists("pyio_trace") or os.path.exists("pyio_trace.py"))  # -m prefers the current folder


def _launch() -> None:
    """Before the interpreter imports what it finds modules with, which takes milliseconds."""
    try:
        from pyio_trace.cli.main import launch_early
    except ImportError:
        return  # as -m will say
    launch_early()
