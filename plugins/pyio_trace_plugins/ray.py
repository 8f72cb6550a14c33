"""Ray: every worker of a job traced, and the logs of all of them in one folder.

Ray ends its workers by SIGKILL and _Exit, so nothing can be done at their end.
Instead, environment variables (env_vars of the runtime environment) make each
worker trace itself from its first line, into a live log of its own, which has
every operation from the moment it begins.

    ray.init(runtime_env=pyio_trace_plugins.ray.runtime_env(output="logs/"))
    ...
    pyio_trace_plugins.ray.gather("logs/")     # the logs on other hosts
    pyio_trace.open("logs/")

Without a change to the program: RAY_RUNTIME_ENV_HOOK=pyio_trace_plugins.ray.hook
in its environment.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pyio_trace import config as configuration
from pyio_trace.output import LIVE_SUFFIX, PACKED_SUFFIX, memory_pattern
from pyio_trace.session import text_of
from pyio_trace.values import did_you_mean
from pyio_trace_plugins import gather as gathering

_OUTPUT = configuration.BY_NAME["output"].variable
_QUIET = configuration.BY_NAME["quiet"].variable
_LOG = "PYIO_TRACE_LOG"  # config.py: the log of a run to join


def runtime_env(
    base: Mapping[str, Any] | None = None, /, *, output: str | os.PathLike[str] | None = None, **options: object
) -> dict[str, Any]:
    """The runtime environment `base` (default: an empty one), extended so that workers are traced.

    output: a folder for the workers' logs, created here if missing; or a
    pattern (%h host, %p pid, %t time) for their names.  With several hosts it
    is a shared folder, or one that exists on each host.  Default: the
    configured output (PYIO_TRACE_OUTPUT, ...), else each host's temporary
    folder, from which gather() copies them.  options: those of
    pyio_trace.trace(), such as mode="profile"; the others come from the
    environment and pyproject.toml.  env_vars of `base` take precedence.
    Raises ConfigError.
    """
    for name in options:
        if name not in configuration.BY_NAME:
            near = did_you_mean(name, configuration.BY_NAME)
            raise TypeError(f"runtime_env() has no option {name!r}{near}")
    words = {name: text_of(configuration.BY_NAME[name], value) for name, value in options.items() if value is not None}
    if output is not None:
        words["output"] = os.fspath(output)
    config = configuration.load(words, typed=False)
    ours = {
        **config.to_environment(),
        _OUTPUT: _pattern(config.output),
        _LOG: "",  # no run to join: each worker has its own log
    }
    if "quiet" not in words:
        ours[_QUIET] = "1"  # the driver shows the stderr of its workers
    made = dict(base or {})
    made["env_vars"] = {**ours, **made.get("env_vars", {})}
    return made


def hook(base: Mapping[str, Any] | None) -> dict[str, Any]:
    """For RAY_RUNTIME_ENV_HOOK: ray.init() calls it with the program's runtime environment."""
    return runtime_env(base)


def gather(folder: str | os.PathLike[str], *, progress: bool | None = None) -> list[Path]:
    """Copies the logs of this job's workers, from all hosts, into `folder`, and returns where they are there.

    Call it while the job is connected, between ray.init() and ray.shutdown().
    Logs of running workers are copied as they are now, those of killed workers
    as they were left.  pyio_trace.open(folder) then reads them as one log.
    Logs that are in the folder already stay; the originals stay as well.
    progress: show a bar on stderr; None: if that is a terminal.  A host that
    does not answer causes a warning.  Raises OSError, and RuntimeError if Ray
    is not connected.
    """
    import ray

    if not ray.is_initialized():
        raise RuntimeError("gather() reaches the hosts through Ray: call it before ray.shutdown()")
    logs: list[gathering.LogAt] = []
    for node in ray.nodes():
        name = gathering.shown(f"{node.get('NodeManagerHostname')} ({node['NodeID']})")
        if not node["Alive"]:
            warnings.warn(f"the node {name} is gone: logs on its own disk are not gathered", stacklevel=2)
            continue
        call = partial(_call_on, node["NodeID"])
        try:
            host, paths = call(_logs_here)
            if not isinstance(host, str) or not all(isinstance(path, str) for path in paths):
                raise TypeError("its answer has an unknown form")
        except Exception as problem:
            why = gathering.shown(f"{type(problem).__name__}: {problem}")
            warnings.warn(f"the node {name} does not answer, its logs are not gathered: {why}", stacklevel=2)
            continue
        logs += [gathering.LogAt(host, path, call) for path in paths]
    return gathering.gather(logs, folder, progress=progress)


# ---- names -----------------------------------------------------------------------------


def _pattern(output: str | None) -> str:
    """A pattern that gives every worker of this job, on any host, a log name of its own."""
    run = f"ray-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
    if output is None:
        return os.path.join(_literally(tempfile.gettempdir()), f"pyio-{run}-%h-%t-%p{LIVE_SUFFIX}")
    output = os.path.expanduser(output)
    stem, suffix = os.path.splitext(output)
    if suffix not in (LIVE_SUFFIX, PACKED_SUFFIX):
        os.makedirs(output, exist_ok=True)
        return os.path.join(os.path.abspath(output), f"{run}-%h-%t-%p{LIVE_SUFFIX}")
    if "%p" not in stem:
        stem += "-%h-%t-%p"
    return os.path.abspath(stem) + LIVE_SUFFIX  # live: a worker has no end at which its log could be packed


def _literally(text: str) -> str:
    return text.replace("%", "%%")


# ---- on the hosts ----------------------------------------------------------------------


def _call_on(node: str, function: Any, *arguments: Any) -> Any:
    """Calls function(*arguments) in a worker of that node."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    task = ray.remote(num_cpus=0, name="pyio_trace.gather", scheduling_strategy=there)(_unrecorded)
    return ray.get(task.remote(function, *arguments))


def _unrecorded(function: Any, *arguments: Any) -> Any:
    from pyio_trace import suppress

    with suppress():
        return function(*arguments)


def _logs_here() -> tuple[str, list[str]]:
    """This host's name, and the logs that this user's workers have written on it for this job.

    Logs that could not be mapped at their place are in memory, and stay there when their worker is killed.
    """
    import glob

    pattern = os.environ.get(_OUTPUT, "")
    if not pattern:  # no pattern was set: only this worker's own log is known
        log = os.environ.get(_LOG)
        return os.uname().nodename, [log] if log else []
    parts = pattern.replace("%%", "\0").split("%")
    wild = glob.escape(parts[0]) + "".join("*" + glob.escape(part[1:]) for part in parts[1:])
    wild = wild.replace("\0", "%")
    found = sorted((*glob.glob(wild), *glob.glob(memory_pattern(wild))))
    logs = [path for path in found if path.endswith((LIVE_SUFFIX, PACKED_SUFFIX)) and gathering.is_own(path)]
    return os.uname().nodename, logs
