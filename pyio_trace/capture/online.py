"""Starting and stopping the capture in this process: the core, the file
objects, the context carried over threads, and the environment that children
inherit.  What start() changed, stop() undoes.
"""

from __future__ import annotations

import os
import sys

from pyio_trace import native
from pyio_trace.capture import imports, threads
from pyio_trace.errors import CaptureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyio_trace.config import Config

LOG_VARIABLE = "PYIO_TRACE_LOG"  # the live log of the run; also named in csrc/core/hooks_process.c
_STACKS = {"full": 1, "site": 2, "off": 3}  # enum pt_stack_state

_environment_before: dict[str, str | None] | None = None


def active() -> bool:
    """Whether this process is being traced."""
    return native.core is not None and bool(native.core.state()["active"])


def start(config: Config, live: str, *, create: bool) -> bool:
    """Trace this process into the live log at `live`.

    create: make the log (this process owns the run) rather than join it.
    Returns whether this process is the run's owner.  Raises CaptureError.
    """
    if native.core is None:
        raise CaptureError("no-core", f"tracing is not possible here: {native.reason}")
    if native.core.state()["active"]:
        path = native.core.state()["path"]
        raise CaptureError("already-tracing", f"this process is already being traced, into {path!r}")
    why_no_files = native.core.files_install()  # before the core: looking at the io types opens /dev/null
    try:
        owner = native.core.start(
            os.fsencode(live),
            create,
            config.max_log_size,
            _STACKS[config.stacks],
            "{}.{}.{}".format(*sys.version_info),
            os.fsencode(sys.executable or ""),
            b"\0".join(os.fsencode(word) for word in sys.orig_argv) + b"\0",
        )
    except OSError as problem:
        native.core.files_uninstall()
        raise _explained(problem, live) from None
    if why_no_files:
        native.core.note(f"file objects are not instrumented: {why_no_files}")
    threads.install()
    imports.watch("mmap", lambda module: native.core and native.core.files_install_mmap(module.mmap))
    _tell_children(config, live)
    return owner


def stop() -> None:
    """End tracing in this process; every slot, type and variable is as it was."""
    if native.core is None:
        return
    imports.unwatch()
    threads.uninstall()
    native.core.stop()
    native.core.files_uninstall()
    _restore_environment()


def _explained(problem: OSError, live: str) -> CaptureError:
    """The user's words for what the core's errno means here."""
    from errno import EFBIG, ENOMEM, ENOSPC, EPROTO, ESTALE

    elsewhere = "name another place with -o"
    reasons = {
        EPROTO: ("not-a-log", f"{live!r} is not a live log of this version of pyio_trace"),
        ESTALE: ("run-ended", f"the run of {live!r} has ended"),
        ENOSPC: ("log-disk-full", f"no room for the log {live!r}: the disk is full; {elsewhere}"),
        EFBIG: ("log-limit", f"the file-size limit (ulimit -f) leaves no room for the log {live!r}"),
        ENOMEM: ("log-not-mapped", f"the log {live!r} cannot be mapped here; {elsewhere} (a local disk, /dev/shm)"),
    }
    default = ("unwritable-log", f"the log {live!r} cannot be written: {problem.strerror}")
    return CaptureError(*reasons.get(problem.errno or 0, default))


def _tell_children(config: Config, live: str) -> None:
    """Children inherit the run through the environment, or are told nothing."""
    global _environment_before
    if config.follow == "none":
        wanted: dict[str, str | None] = dict.fromkeys((*config.to_environment(), LOG_VARIABLE))
    else:
        wanted = {**config.to_environment(), LOG_VARIABLE: os.path.abspath(live)}
    _environment_before = {name: os.environ.get(name) for name in wanted}
    _set_environment(wanted)


def _restore_environment() -> None:
    global _environment_before
    if _environment_before is not None:
        _set_environment(_environment_before)
        _environment_before = None


def _set_environment(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
