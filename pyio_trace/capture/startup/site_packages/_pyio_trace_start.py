"""What pyio_trace.pth (to Python 3.19) and pyio_trace.start (from 3.15) call: auto-enable, and the early launch.

It is installed next to the package, not in it, because interpreters that do not
trace must not even import the package.

PYTEST_DONT_REWRITE: see pyio_trace/__init__.py.
"""

import os
import sys

_AT_SECURE = 23  # getauxval(3)

_begun = False


def start() -> None:
    """Launch the program that -m pyio_trace names, or trace this process if PYIO_TRACE is set.  Never raises.

    It does nothing at all in a process with more rights than the user who started it.
    """
    global _begun
    if _begun:  # a virtual environment reads .pth files twice; by the second time we may be tracing
        return
    _begun = True
    if is_privileged():
        return
    if _is_launcher():
        _launch()
    trace_if_asked()


def trace_if_asked() -> None:
    """Trace this process if PYIO_TRACE is set; capture/runtime/ knows the words that mean no."""
    if os.environ.get("PYIO_TRACE"):
        try:
            from pyio_trace.capture.runtime import start_from_environment
        except ImportError as problem:
            try:
                os.write(2, f"pyio-trace: not tracing: {problem}\n".encode(errors="replace"))
            except OSError:
                pass  # stderr is closed
        else:
            start_from_environment()


def is_privileged() -> bool:
    """Whether this process has more rights than its user: set-user-ID, set-group-ID or file capabilities.

    Its environment, current folder and descriptors then come from somebody with
    fewer rights.  csrc/core/control/preload.c has the same rule.
    """
    if os.getuid() != os.geteuid() or os.getgid() != os.getegid():
        return True
    try:
        descriptor = os.open("/proc/self/auxv", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False  # no /proc here
    except OSError:
        return True  # the kernel hides it from privileged processes
    try:
        words = memoryview(os.read(descriptor, 4096)).cast("L").tolist()  # a few hundred bytes: type, value, ...
    finally:
        os.close(descriptor)
    return any(words[at] == _AT_SECURE and words[at + 1] for at in range(0, len(words) - 1, 2))


def _is_launcher() -> bool:
    """Whether this interpreter was started as `python [options] -m pyio_trace`, and that means this package."""
    ours = len(sys.orig_argv) - len(sys.argv) + 1
    if sys.argv[:1] != ["-m"] or sys.orig_argv[:ours][-2:] != ["-m", "pyio_trace"]:
        return False
    if "pyio_trace" in sys.modules:
        return False  # the launch has been tried already
    return not (os.path.exists("pyio_trace") or os.path.exists("pyio_trace.py"))  # -m looks in the current folder first


def _launch() -> None:
    """Launch now, before the interpreter imports its module search, which takes milliseconds."""
    try:
        from pyio_trace.capture.startup.command_line import launch_early
    except ImportError:
        return  # -m will report it
    launch_early()
