"""Ray's workers traced, and their logs brought together.

Ray ends its workers by SIGKILL and _Exit, wherever they run: nothing can be
done at their end.  So each worker is traced from its first line, by
environment variables that Ray gives it (env_vars of the runtime environment),
into a live log of its own, in which every operation is from when it begins.

    ray.init(runtime_env=pyio_trace_plugins.ray.runtime_env(output="logs/"))
    ...
    pyio_trace_plugins.ray.gather("logs/")     # what other hosts have
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
from pyio_trace.output import LIVE_SUFFIX, PACKED_SUFFIX, named_in_memory
from pyio_trace.values import did_you_mean, in_words
from pyio_trace_plugins import gather as gathering

_OUTPUT = configuration.BY_NAME["output"].variable
_QUIET = configuration.BY_NAME["quiet"].variable
_LOG = "PYIO_TRACE_LOG"  # config.py: the log of a run to join


def runtime_env(
    base: Mapping[str, Any] | None = None, /, *, output: str | os.PathLike[str] | None = None, **options: object
) -> dict[str, Any]:
    """The runtime environment `base` (default: an empty one), in which workers are traced.

    output: a folder for the workers' logs, made here if need be; or a pattern
    (%h host, %p pid, %t time) of their names.  On several hosts it is a shared
    folder or one that each host has.  Default: PYIO_TRACE_OUTPUT and its
    like, else each host's temporary folder, from which gather() takes them.
    options: those of pyio_trace.trace(), such as mode="profile"; where not
    given, they come from the environment and pyproject.toml.  What `base` says
    in its own env_vars counts.  Raises ConfigError.
    """
    for name in options:
        if name not in configuration.BY_NAME:
            near = did_you_mean(name, configuration.BY_NAME)
            raise TypeError(f"runtime_env() has no option {name!r}{near}")
    words = {name: in_words(value, name) for name, value in options.items() if value is not None}
    if output is not None:
        words["output"] = os.fspath(output)
    config = configuration.load(words, typed=False)
    ours = {**config.to_environment(), _OUTPUT: _pattern(config.output), _LOG: ""}  # a log of its own for each
    if "quiet" not in words:
        ours[_QUIET] = "1"  # a worker's stderr is shown on the driver's
    made = dict(base or {})
    made["env_vars"] = {**ours, **made.get("env_vars", {})}
    return made


def hook(base: Mapping[str, Any] | None) -> dict[str, Any]:
    """For RAY_RUNTIME_ENV_HOOK: ray.init() calls it with the program's runtime environment."""
    return runtime_env(base)


def gather(folder: str | os.PathLike[str], *, progress: bool | None = None) -> list[Path]:
    """Bring the logs of this job's workers, on all hosts, into `folder`, and return where they are there.

    Call it while the job is connected (between ray.init() and ray.shutdown());
    workers that still run are in it as far as they have come, those that were
    killed too.  pyio_trace.open(folder) then reads them as one.  Logs that
    stand in that folder already stay; the others stay also where they were.
    progress: a bar on stderr; None: if that is a terminal.  A host that cannot
    be asked any more costs a warning.  Raises OSError, and RuntimeError if Ray
    is not connected.
    """
    import ray

    if not ray.is_initialized():
        raise RuntimeError("gather() asks the hosts through Ray: call it before ray.shutdown()")
    logs: list[gathering.LogAt] = []
    for node in ray.nodes():
        name = f"{node.get('NodeManagerHostname')} ({node['NodeID']})"
        if not node["Alive"]:
            warnings.warn(f"the node {name} is gone: logs that only it has are not gathered", stacklevel=2)
            continue
        call = partial(_call_on, node["NodeID"])
        try:
            host, paths = call(_logs_here)
        except Exception as problem:
            why = f"{type(problem).__name__}: {problem}"
            warnings.warn(f"the node {name} does not answer, its logs are not gathered: {why}", stacklevel=2)
            continue
        logs += [gathering.LogAt(host, path, call) for path in paths]
    return gathering.gather(logs, folder, progress=progress)


# ---- names -----------------------------------------------------------------------------


def _pattern(output: str | None) -> str:
    """A pattern by which no two workers of this job, on whatever hosts, have the same log."""
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
    return os.path.abspath(stem) + LIVE_SUFFIX  # a worker has no end at which it could be packed


def _literally(text: str) -> str:
    return text.replace("%", "%%")


# ---- on the hosts ----------------------------------------------------------------------


def _call_on(node: str, function: Any, *arguments: Any) -> Any:
    """function(*arguments) in a worker of that node."""
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
    """This host's name, and the logs that its workers have written for this job.

    Those that could not be mapped where they were to be are in memory: there they stay when a worker is killed.
    """
    import glob

    pattern = os.environ.get(_OUTPUT, "")
    if not pattern:  # a pattern of nobody's making: this worker's own log is all that is known
        log = os.environ.get(_LOG)
        return os.uname().nodename, [log] if log else []
    parts = pattern.replace("%%", "\0").split("%")
    wild = glob.escape(parts[0]) + "".join("*" + glob.escape(part[1:]) for part in parts[1:])
    wild = wild.replace("\0", "%")
    found = sorted((*glob.glob(wild), *glob.glob(named_in_memory(wild))))
    return os.uname().nodename, [path for path in found if path.endswith((LIVE_SUFFIX, PACKED_SUFFIX))]
