"""What runs in every traced process.  This file starts tracing before the program's first line.

Called by the hooks that the interpreter finds (startup/site_packages,
startup/shim) and by pyio_trace.auto.  Nothing here may raise into the program:
a failure is one line on stderr and an untraced program.

It is not a separate module because each module adds some 80 us to a start.
"""

import os
import sys

from pyio_trace.errors import CaptureError, PyioTraceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyio_trace.config import Config

#: Service programs of frameworks, which do no I/O of the user's program, by the ends of their scripts' paths.
_SERVICES = (
    "/ray/dashboard/dashboard.py", "/ray/dashboard/agent.py", "/ray/_private/runtime_env/agent/main.py",
    "/ray/_private/log_monitor.py", "/ray/_private/ray_process_reaper.py",
    "/ray/autoscaler/_private/monitor.py", "/ray/autoscaler/v2/monitor.py",
)  # fmt: skip
#: Our own commands, and programs that only start others: a cluster, a worker.
_COMMANDS = ("pyio_trace", "pyio-trace", "ray", "ray.scripts.scripts", "ray.util.client.server", "setup_worker.py")

_done = False


def start_from_environment() -> None:
    """Trace this process as the PYIO_TRACE* variables say.  Never raises; a second call does nothing.

    With PYIO_TRACE_LOG, which is set for the processes of a run, it joins that
    run; otherwise it begins a run and owns it.  Under -E and -I it reads only
    these two variables from the environment (log_settings.py).  The caller has
    checked that the process is not privileged.
    """
    global _done
    if _done:
        return
    _done = True
    # Read now: later the variable is set for our own children.
    is_child = bool(os.environ.get("PYIO_TRACE_LOG")) and not (sys.flags.ignore_environment or sys.flags.isolated)
    try:
        _start()
    except PyioTraceError as problem:
        if problem.slug != "run-ended" and not is_child:  # a child may well outlive its run
            _say(f"not tracing: {problem}")
    except Exception as problem:
        if not is_child:  # the program may read its stderr; the log of its parent lists it as not followed
            _say(f"not tracing: {type(problem).__name__}: {problem}")


def _say(text: str) -> None:
    """native.say(), which the usual start does not need."""
    try:
        from pyio_trace.native import say
    except Exception:  # nothing can be imported any more: that may be the very problem
        from pyio_trace.errors import say
    say(text)


def _start() -> None:
    from pyio_trace import config as configuration

    if not configuration.enabled():
        return
    from pyio_trace.capture.runtime import tracer

    live = tracer.run_to_join()
    script = tracer.script_name()
    if _is_ignored(script) or (live and _already_traced(live)):
        return
    if live:
        config = configuration.Config.from_environment(tracer.variables())
        final = tracer.variables().get(configuration.FINAL_VARIABLE)
        try:
            started = tracer.start(config, live, final, create=False)
        except CaptureError as problem:
            if problem.slug != "other-place":
                raise
            _start_in_other_place(config, live, final)
            return
    else:
        from pyio_trace.output import log_paths

        _check_folder()
        config = configuration.load()
        live, final = log_paths(config.output, script, check_live=False)
        started = tracer.start(config, live, final, create=True)
        if started.why_elsewhere and not config.quiet:
            _say(started.why_elsewhere)
        elif not config.quiet and os.isatty(2):  # a program that reads its stderr, or keeps it, gets no line more
            _say(f"traced into {started.live}; look: pyio-trace top {os.getpid()}")
    if configuration.DOCTOR_VARIABLE in tracer.variables():
        from pyio_trace.capture.runtime.doctor_wait import wait_at_exit

        wait_at_exit()
    if started.owner:
        finish_at_exit(started.live, started.final, quiet=config.quiet, mode=config.log_mode)


def _check_folder() -> None:
    """Under -E and -I, the log goes to the current folder: raises CaptureError if other users can write there."""
    from pyio_trace.config import isolated

    if not isolated():
        return
    from pyio_trace.capture.runtime.log_settings import is_only_ours

    if not is_only_ours(os.stat(".")):
        raise CaptureError(
            "shared-folder",
            "with -E or -I the log goes to the current folder, and others can write there or own it; "
            "start the program in a folder of your own, or by python -I -m pyio_trace -o LOG",
        )


def _start_in_other_place(config: "Config", live: str, final: "str | None") -> None:
    """Trace a process that is on another host or in another container (pid namespace) than its run.

    It cannot share the run's log, because process numbers and clocks differ.  It
    owns a log of its own, of the same run, next to that one.
    """
    from pyio_trace.capture.runtime import tracer
    from pyio_trace.output import log_paths_beside

    started = tracer.start(config, *log_paths_beside(live, final), create=True, run_of=live)
    finish_at_exit(started.live, started.final, quiet=True, mode=config.log_mode)


def _already_traced(live: str) -> bool:
    """Whether another interpreter of this process has joined the run: this is a subinterpreter."""
    from pyio_trace import native

    if native.core is not None:
        state = native.core.state()
        return bool(state["active"]) and not state["preloaded"]
    from pyio_trace.existing_files import has_mapped  # the core does not load in this interpreter

    return has_mapped(os.getpid(), live)


def _is_ignored(script: str) -> bool:
    """Whether this is a helper of the standard library or a framework, which does no I/O of the program, or a command.

    The preloaded core has the same rule (csrc/core/control/preload.c).
    """
    from pyio_trace.config import ENABLE_VARIABLE

    if script.endswith(_SERVICES):
        os.environ.pop(ENABLE_VARIABLE, None)  # nor are its children traced: installers, processes of its own
        return True
    if os.path.basename(script) in _COMMANDS:
        return True
    return any("multiprocessing.resource_tracker import" in word for word in sys.orig_argv)


def finish_at_exit(live: str, final: "str | None", *, quiet: bool, mode: str) -> None:
    """When this process has ended, pack its log into `final`, with permissions `mode`, and print the summary.

    The process becomes a small program for that, which starts a fresh interpreter
    (csrc/core/process/end_of_run.c), so the log includes the program's last write.
    """
    from pyio_trace import native

    if native.core is None or (quiet and final is None):
        return
    code = (
        "import os, sys; sys.path += [p for p in sys.argv.pop(1).split(':') if p not in sys.path]; "
        "from pyio_trace.cli.main import main; status = main(sys.argv[1:]); "
        # The log is packed: skip the shutdown of Python and its libraries, which could still fail.
        "sys.stderr and sys.stderr.flush(); os._exit(status)"
    )
    path = os.path.dirname(native.package_folder())
    flag = "-P"  # do not import from the current folder
    if sys.flags.ignore_environment:
        flag = "-I"  # nor from where the environment says; csrc/core/process/finisher_environment.c drops it too
        path = ":".join([*(entry for entry in sys.path if isinstance(entry, str) and entry.startswith("/")), path])
    words = [sys.executable or "", flag, "-c", code, path, "finish", live]
    words += ["--identity", ":".join(map(str, native.core.identity()))]
    if final is not None:
        words += ["--final", final, "--mode", mode]
    words += ["--quiet"] if quiet else ["--stderr", "3"]  # STDERR_KEPT in csrc/core/finisher/child.c
    stub = os.fsencode(native.program("pyio-trace-end"))
    native.core.finish_with([os.fsencode(word) for word in words], quiet, stub)
