"""Starts and stops tracing in this process: the core, file objects, instruments, and what children inherit.

stop() undoes whatever start() has changed.
"""

import os
import sys

from pyio_trace import native
from pyio_trace.capture.instrumentation import import_hooks, instrument_registry
from pyio_trace.config import FINAL_VARIABLE, FOUND_VARIABLE, LOG_VARIABLE, SCRIPT_VARIABLE, isolated
from pyio_trace.errors import CaptureError, ConfigError
from pyio_trace.values import MODES, STACK_STATES, job_in, program_of, rank_in, signal_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyio_trace.config import Config


_environment_before: "dict[str, str | None] | None" = None
_settings_in_log: "Mapping[str, str]" = {}
_remove_preload: "Callable[[], None] | None" = None
#: Live logs of parts of this program that were to be packed, and to which processes still wrote when they ended.
left_live: "set[str]" = set()


class Started:
    """What start() returns.

    owner: whether this process owns the run.  live, final: its logs, as for
    start().  why_elsewhere: why they are not where they were to be, or empty.
    """

    def __init__(self, owner: bool, live: str, final: "str | None", why_elsewhere: str = "") -> None:
        self.owner, self.live, self.final, self.why_elsewhere = owner, live, final, why_elsewhere


def variables() -> "Mapping[str, str]":
    """The variables that this process obeys: its environment, or under -E and -I the settings in its run's log."""
    return _settings_in_log if isolated() else os.environ


def run_to_join() -> "str | None":
    """The live log of the run that this process joins; None: it begins a run of its own.

    Raises CaptureError: run-ended.
    """
    global _settings_in_log
    live = os.environ.get(LOG_VARIABLE) or None
    if live is None or not isolated():
        return live
    from pyio_trace.capture.runtime.log_settings import read

    try:
        _settings_in_log = read(live)
    except FileNotFoundError:
        raise CaptureError("run-ended", f"the run of {live!r} has ended") from None
    except (OSError, ValueError):
        return None
    return live


def start(
    config: "Config", live: str, final: "str | None", *, create: bool, run_of: str = "", late: bool = False
) -> Started:
    """Trace this process into the live log at `live`, or into one beside it if another run uses that name.

    create: make the log and own the run, rather than join it.
    final: the Parquet log to pack at the end of the run; None: keep the live log.
    run_of: with create, the log of this process's run, if it cannot join that one (another host or container).
    late: the program runs already.
    Raises CaptureError and ConfigError.
    """
    if native.core is None:
        raise CaptureError("no-core", f"tracing is not possible here: {native.reason}")
    state = native.core.state()
    if state["active"] and (create or not state["preloaded"]):
        path = state["path"]
        raise CaptureError("already-tracing", f"this process is already being traced, into {path!r}")
    known = _known_instruments()
    packages = _started_packages()
    late_module = not packages and program_of(sys.orig_argv[1:])[0] == "m"
    if create and not run_of:  # only for the run's first process: a child may have other packages installed
        check(config, known)
    why_no_files = native.core.files_install()  # before the core: inspecting the io types opens /dev/null
    try:
        started = _start_core(native.core.start, config, live, final, create, run_of)
    except (CaptureError, ConfigError):
        native.core.files_uninstall()
        raise
    if started.owner:
        period = 0 if (rank_in(os.environ) or (0, 0, 0))[1] else config.system  # one process of each host looks
        if config.sample or period:
            program = os.fsencode(native.program("pyio-trace-sample"))
            native.core.start_sampler(config.sample, period, program, late)
    _name_program(packages)
    if late_module:  # a later .pth file or sitecustomize may add the folder that it is in
        import_hooks.watch("runpy", lambda _module: _name_program(_started_packages()))
    script = script_name()
    if not native.core.traces(os.fsencode(script)):
        native.core.pause(True)
        native.core.note("left out by --include or --exclude (process:...)")
    if config.dump_signal:
        native.core.dump_on_signal(signal_number(config.dump_signal))
    if why_no_files:
        native.core.note(f"file objects are not instrumented: {why_no_files}")
    instrument_registry.start(config.instruments, known)
    import_hooks.watch("mmap", lambda module: native.core and native.core.files_install_mmap(module.mmap))
    _set_up_children(config, started, instrument_registry.encode_third_party(known), script)
    if config.follow == "all":
        global _remove_preload
        from pyio_trace.capture.runtime import ld_preload  # not needed otherwise

        _remove_preload = ld_preload.remove
        ld_preload.add(complain=started.owner)
    if program_of(sys.orig_argv[1:])[0] == "c":  # other programs are still to be found and read
        native.core.script_is_next()
    return started


def _name_program(packages: "list[str]") -> None:
    if packages and native.core is not None:
        native.core.set_program(",".join(packages))


def _started_packages() -> "list[str]":
    """See started_package.py, which few programs need."""
    kind, what = program_of(sys.orig_argv[1:])
    if kind != "m" and (kind or what in ("", "-") or what.endswith(".py")):
        return []
    from pyio_trace.capture.runtime.started_package import started_packages

    return started_packages()


def prepare(config: "Config", live: str, final: "str | None") -> str:
    """Make the run's log and return its path; the program that this process is about to become joins it and owns it.

    That program may ignore its environment, so the log carries its settings.
    Raises CaptureError and ConfigError.
    """
    from pyio_trace.output import packed_name

    if native.core is None:
        raise CaptureError("no-core", f"tracing is not possible here: {native.reason}")
    if native.core.state()["active"]:
        native.core.stop()  # the preloaded core of another run
    check(config)
    started = _start_core(native.core.prepare, config, live, final, create=True)
    path = os.path.abspath(started.live)
    if started.final is not None and started.final != packed_name(path):  # log_settings.py heeds no other name
        os.unlink(path)
        raise CaptureError(
            "unwritable-log",
            f"with -E or -I the log has to be where it can be mapped and kept private, and {live!r} is not; "
            "name another place with -o",
        )
    settings = {**config.to_environment(), LOG_VARIABLE: path}
    if started.final is not None:
        settings[FINAL_VARIABLE] = started.final
    native.core.store_settings(encode_settings(settings))
    return path


def _known_instruments() -> "dict[str, str]":
    return instrument_registry.names(variables().get(FOUND_VARIABLE))


def check(config: "Config", known: "dict[str, str] | None" = None) -> None:
    """Raises ConfigError for an op:NAME that is not an operation, and for an instrument that does not exist.

    known: from instrument_registry.names(), if the caller has it.
    """
    if not config.has_names:
        return
    from pyio_trace.capture.runtime.name_checks import check_names

    check_names(config, known or _known_instruments())


def _start_core(
    start: "Callable[..., bool]", config: "Config", live: str, final: "str | None", create: bool, run_of: str = ""
) -> Started:
    """Start with the log at `live`; if that is not possible and `create` is set, at another place.

    Raises CaptureError and ConfigError.
    """
    rank, local_rank, world_size = rank_in(os.environ) or (None, None, None)
    job = job_in(os.environ)
    if rank is not None or any(job.values()):
        from pyio_trace.capture.runtime.job_run import job_run

        job["job_run"] = job_run(os.environ, os.getppid())

    def start_at(path: str) -> bool:
        return bool(
            start(
                os.fsencode(path),
                create=create,
                budget=config.max_log_size,
                stacks=STACK_STATES.index(config.stacks),
                version="{}.{}.{}".format(*sys.version_info),
                executable=os.fsencode(sys.executable or ""),
                argv=b"\0".join(os.fsencode(word) for word in sys.orig_argv) + b"\0",
                mode=MODES.index(config.mode),
                ring=config.ring_size,
                include=os.fsencode(config.include),
                exclude=os.fsencode(config.exclude),
                min_duration=config.min_duration,
                min_size=config.min_size,
                redact=os.fsencode(config.redact),
                memory=config.max_memory,
                run_of=os.fsencode(run_of),
                global_rank=0 if rank is None else rank + 1,
                local_rank=0 if local_rank is None else local_rank + 1,
                world_size=world_size or 0,
                **job,
            )
        )

    try:
        return Started(start_at(live), live, final)
    except OSError as problem:
        if not create:
            raise _explained(problem, live) from None
        if config.output and os.path.abspath(os.path.expanduser(config.output)) in (live, final):
            from pyio_trace.existing_files import check_replaceable

            # The user asked for this very name.  The log gets another one only if an earlier part's log has it.
            check_replaceable(live, may_be_numbered=live in left_live and live != config.output)
        try:
            return _start_elsewhere(start_at, live, final, problem)
        except OSError as last:
            raise _explained(last, live) from None


def _start_elsewhere(start_at: "Callable[[str], bool]", live: str, final: "str | None", problem: OSError) -> Started:
    """Start with a numbered log if another run uses the name.

    Where files cannot be mapped or kept private, start with a log in memory,
    which is written to its file at the end.  Raises `problem`, or the last one.
    """
    from errno import EBADFD, EBUSY, ENODEV, ENOTUNIQ  # not earlier: the program may not have imported errno

    from pyio_trace.output import memory_path, numbered

    names, wanted, memory_tried = numbered(live, final), live, False
    while True:
        if problem.errno in (EBUSY, ENOTUNIQ):
            live, final = next(names, ("", None))
            place, why = live, f"{wanted!r} is another run's, or no log of yours; the log is {live!r}"
        elif problem.errno in (ENODEV, EBADFD) and not memory_tried:
            place, final, memory_tried = memory_path(live) or "", final or live, True
            what = "mapped" if problem.errno == ENODEV else "kept private"
            why = f"files cannot be {what} where {live!r} is; until the run has ended its log is {place!r}"
        else:
            raise problem
        if not place:
            raise problem
        try:
            return Started(start_at(place), place, final, why)
        except OSError as next_problem:
            problem = next_problem


def _explained(problem: OSError, live: str) -> CaptureError:
    from pyio_trace.capture.runtime.start_errors import explained

    return explained(problem, live)


def stop(to_pack: bool = False) -> None:
    """End tracing in this process: every slot, type and variable gets its old value back.

    to_pack: the caller packs the log, if no process needs it any more.

    It imports and opens nothing, because the program may no longer be able to.
    If a step fails, the others are still done; what the first one raised is raised at the end.
    """
    if native.core is None:
        return
    failure: BaseException | None = None
    core = native.core
    steps = (
        import_hooks.unwatch, instrument_registry.stop, lambda: core.stop(to_pack), core.files_uninstall,
        _remove_preload, _restore_environment,
    )  # fmt: skip
    for step in steps:
        try:
            if step is not None:
                step()
        except BaseException as problem:  # Ctrl-C too
            failure = failure or problem
    if failure is not None:
        raise failure


# ---- the program's name ----------------------------------------------------------------


def script_name() -> str:
    """What is being run, for the log's name and for process:NAME rules.  sys.argv may not be complete yet.

    A worker of multiprocessing (spawn, forkserver) has the name of the program's script.
    """
    kind, what = program_of(sys.orig_argv[1:])
    if kind == "c":
        is_worker = any(f"from multiprocessing.{module} import" in what for module in ("spawn", "forkserver"))
        return variables().get(SCRIPT_VARIABLE, "command") if is_worker else "command"
    return what if what not in ("", "-") else "python"


# ---- what children inherit -------------------------------------------------------------


def _set_up_children(config: "Config", started: Started, found: str, script: str) -> None:
    """Give children the run in their environment, or with --follow=none remove it from there."""
    global _environment_before
    wanted: dict[str, str | None] = {
        **config.to_environment(),
        LOG_VARIABLE: os.path.abspath(started.live),
        FINAL_VARIABLE: started.final,  # for a program that this process becomes by exec
        FOUND_VARIABLE: found,
        SCRIPT_VARIABLE: script,
    }
    if config.follow == "none":
        wanted = dict.fromkeys(wanted)
    elif started.owner:
        _write_settings({name: value for name, value in wanted.items() if value is not None})
    _environment_before = {name: os.environ.get(name) for name in wanted}
    _set_environment(wanted)


def _write_settings(values: "dict[str, str]") -> None:
    """Put them into the log, where children with -E or -I read them."""
    if native.core is not None and not native.core.store_settings(encode_settings(values)):
        native.core.note("no room in the log for the settings of children with -E or -I: they do not join the run")


def encode_settings(values: "Mapping[str, str]") -> bytes:
    """Variables as the log's header keeps them; log_settings.py reads them."""
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in values.items())


def _restore_environment() -> None:
    global _environment_before
    if _environment_before is not None:
        _set_environment(_environment_before)
        _environment_before = None


def _set_environment(values: "dict[str, str | None]") -> None:
    for name, value in values.items():
        native.set_variable(name, value)
