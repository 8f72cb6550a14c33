"""A process of a run starts tracing: called by auto-enable (capture/start/,
capture/shim/, pyio_trace.auto) before the program's first line.

Nothing here may raise into the program: what goes wrong is one line on stderr
and an untraced program.
"""

from __future__ import annotations

import os
import sys

from pyio_trace.errors import PyioTraceError, say

#: Programs of frameworks that serve everybody's work and do none of it, by the ends of their scripts' paths.
_SERVICES = (
    "/ray/dashboard/dashboard.py", "/ray/dashboard/agent.py", "/ray/_private/runtime_env/agent/main.py",
    "/ray/_private/log_monitor.py", "/ray/_private/ray_process_reaper.py",
    "/ray/autoscaler/_private/monitor.py", "/ray/autoscaler/v2/monitor.py",
)  # fmt: skip
#: Our own commands, and those that only start what may be of interest: a cluster, a worker.
_COMMANDS = ("pyio_trace", "pyio-trace", "ray", "ray.scripts.scripts", "ray.util.client.server", "setup_worker.py")

_done = False


def start_from_environment() -> None:
    """Trace this process as PYIO_TRACE and its companions say.  Never raises.

    With PYIO_TRACE_LOG (set by us for the processes of a run) it joins that
    run; otherwise it begins one and owns it.  Called again, it does nothing.
    """
    global _done
    if _done:
        return
    _done = True
    try:
        _start()
    except PyioTraceError as problem:
        if problem.slug != "run-ended":  # a child that outlives its run is nobody's mistake
            say(f"not tracing: {problem}")
    except Exception as problem:
        say(f"not tracing: {type(problem).__name__}: {problem}")


def _start() -> None:
    from pyio_trace import config as configuration

    if not configuration.enabled() or _leave_alone():
        return
    from pyio_trace.capture import online

    live = os.environ.get(configuration.LOG_VARIABLE)
    if live and _traced_already(live):
        return  # a subinterpreter
    if live:
        settings = configuration.Config.from_environment()
        begun = online.start(settings, live, os.environ.get(configuration.FINAL_VARIABLE), create=False)
    else:
        settings = configuration.load()
        live, final = configuration.output_paths(settings, online.script_name())
        begun = online.start(settings, live, final, create=True)
        if begun.live != live and not settings.quiet:
            say(f"files cannot be mapped where {live!r} is; until the run has ended its log is {begun.live!r}")
    if configuration.HOLD_VARIABLE in os.environ:
        from pyio_trace.capture.hold import hold_at_exit

        hold_at_exit()
    if begun.owner:
        finish_at_exit(begun.live, begun.final, quiet=settings.quiet)


def _traced_already(live: str) -> bool:
    """Whether another interpreter of this very process is in the run; the core, if it loads here at all, knows."""
    from pyio_trace import native

    if native.core is not None:
        state = native.core.state()
        return bool(state["active"]) and not state["preloaded"]
    from pyio_trace.output import _maps

    return _maps(os.getpid(), live)


def _leave_alone() -> bool:
    """Helpers of the standard library and of frameworks that do no I/O of the program's, and commands such as ours."""
    from pyio_trace.capture import online
    from pyio_trace.config import ENABLE_VARIABLE

    script = online.script_name()
    if script.endswith(_SERVICES):
        os.environ.pop(ENABLE_VARIABLE, None)  # nor what it starts: installers, processes of its own
        return True
    if os.path.basename(script) in _COMMANDS:
        return True
    return any("multiprocessing.resource_tracker import" in word for word in sys.orig_argv)


def finish_at_exit(live: str, final: str | None, *, quiet: bool) -> None:
    """When this process has ended: make `final` of the log, print the summary.

    It is done by a fresh interpreter that the core starts after Python has
    gone (csrc/core/finish.c), so that the last write of the program is in.
    """
    from pyio_trace import native

    if native.core is None or (quiet and final is None):
        return
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = (
        "import sys; sys.path.append(sys.argv.pop(1)); "
        "from pyio_trace.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-P", "-c", code, root, "finish", live]  # -P: not what lies in the current folder
    if final is not None:
        words += ["--final", final]
    if quiet:
        words += ["--quiet"]
    native.core.finish_with([os.fsencode(word) for word in words])
