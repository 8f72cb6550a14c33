"""Starting and stopping the capture in this process: the core, the file
objects, the context carried over threads, and the environment that children
inherit.  What start() changed, stop() undoes.
"""

from __future__ import annotations

import os
import sys

from pyio_trace import native
from pyio_trace.capture import engine, imports, threads
from pyio_trace.config import FINAL_VARIABLE, FOUND_VARIABLE, LOG_VARIABLE, SCRIPT_VARIABLE
from pyio_trace.errors import CaptureError, ConfigError
from pyio_trace.values import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from pyio_trace.config import Config

MODES = ("trace", "profile", "ring")  # enum pt_mode, by number
_STACKS = {"full": 1, "site": 2, "off": 3}  # enum pt_stack_state

_environment_before: dict[str, str | None] | None = None


class Begun:
    """A start.  owner: whether the run is this process's; live, final: its logs, as in start()."""

    def __init__(self, owner: bool, live: str, final: str | None) -> None:
        self.owner, self.live, self.final = owner, live, final


def active() -> bool:
    """Whether this process is being traced."""
    return native.core is not None and bool(native.core.state()["active"])


def start(config: Config, live: str, final: str | None, *, create: bool) -> Begun:
    """Trace this process into the live log at `live`.

    create: make the log (this process owns the run) rather than join it.
    final: what becomes of the log when the run has ended; None: it stays.
    Raises CaptureError.
    """
    if native.core is None:
        raise CaptureError("no-core", f"tracing is not possible here: {native.reason}")
    state = native.core.state()
    if state["active"] and (create or not state["preloaded"]):
        path = state["path"]
        raise CaptureError("already-tracing", f"this process is already being traced, into {path!r}")
    known = engine.names()
    if create:  # who joins a run takes it as it is: another Python's packages may be others
        check(config, known)
    why_no_files = native.core.files_install()  # before the core: looking at the io types opens /dev/null
    try:
        begun = _start_core(native.core, config, live, final, create)
    except OSError as problem:
        native.core.files_uninstall()
        raise _explained(problem, live) from None
    if not native.core.traces(os.fsencode(script_name())):
        native.core.pause(True)
        native.core.note("left out by --include or --exclude (process:...)")
    if config.dump_signal:
        import signal

        native.core.dump_on_signal(signal.Signals[config.dump_signal])
    if why_no_files:
        native.core.note(f"file objects are not instrumented: {why_no_files}")
    engine.start(config.instruments, known)  # puts back whatever was watched before
    threads.install()
    imports.watch("mmap", lambda module: native.core and native.core.files_install_mmap(module.mmap))
    _tell_children(config, begun, engine.told(known))
    if config.follow == "all":
        from pyio_trace.capture import preload  # not at every start

        preload.add(complain=begun.owner)
    return begun


def _start_core(core: ModuleType, config: Config, live: str, final: str | None, create: bool) -> Begun:
    """Start where the log was to be; where files cannot be mapped, in memory, to be written there at the end."""

    def start_at(path: str) -> bool:
        return bool(core.start(
            os.fsencode(path),
            create,
            config.max_log_size,
            _STACKS[config.stacks],
            "{}.{}.{}".format(*sys.version_info),
            os.fsencode(sys.executable or ""),
            b"\0".join(os.fsencode(word) for word in sys.orig_argv) + b"\0",
            MODES.index(config.mode),
            config.ring_size,
            os.fsencode(config.include),
            os.fsencode(config.exclude),
            config.min_duration,
            config.min_size,
        ))

    try:
        return Begun(start_at(live), live, final)
    except OSError as problem:
        from errno import ENODEV  # not before: a module that the program may not have

        from pyio_trace.output import in_memory

        place = in_memory(live)
        if problem.errno != ENODEV or not create or place is None:
            raise
        return Begun(start_at(place), place, final or live)


def script_name() -> str:
    """What is being run, for the log's name and process:NAME rules: sys.argv may not be complete yet.

    A worker of multiprocessing's (spawn, forkserver) goes by the script of the program that it works for.
    """
    kind, what = _program(sys.orig_argv[1:])
    if kind == "c":
        work = any(f"from multiprocessing.{module} import" in what for module in ("spawn", "forkserver"))
        return os.environ.get(SCRIPT_VARIABLE, "command") if work else "command"
    return what if what not in ("", "-") else "python"


def _program(words: list[str]) -> tuple[str, str]:
    """("c", code), ("m", module) or ("", script) of an interpreter's words, as it reads them itself."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            return "", word
        if word.startswith("--"):
            at += word == "--check-hash-based-pycs"
            continue
        # Letters may be joined (-Bum module); these take a value, here or in the next word.
        valued = next((n for n in range(1, len(word)) if word[n] in "cmWX"), 0)
        if valued:
            value = word[valued + 1 :]
            if not value:
                value = words[at] if at < len(words) else ""
                at += 1
            if word[valued] in "cm":
                return word[valued], value
    return "", words[at] if at < len(words) else ""


def check(config: Config, known: dict[str, str] | None = None) -> None:
    """Raises ConfigError for an op:NAME that is no operation, and for an instrument that there is not.

    known: of engine.names(), where that has been asked for.
    """
    if config.instruments not in ("all", "none"):
        engine.check(config.instruments, engine.names() if known is None else known)
    words = f"{config.include},{config.exclude}".split(",")
    names = [word.removeprefix("op:") for word in words if word.startswith("op:")]
    if not names:
        return
    operations = native.core.operations() if native.core is not None else _listed_operations()
    for name in names:
        if operations and not _is_there(name, operations):
            raise ConfigError("bad-rule", f"op:{name}: there is no such operation{did_you_mean(name, operations)}")


def _is_there(pattern: str, operations: list[str]) -> bool:
    """Whether it names an operation."""
    if native.core is not None:
        return bool(native.core.knows_operation(os.fsencode(pattern)))
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, pattern) for name in operations)


def _listed_operations() -> list[str]:
    """Their names where there is no core: from its source, in a source tree; else empty."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        with open(os.path.join(root, "csrc", "core", "operations.def"), encoding="utf-8") as table:
            return [line.split('"')[1] for line in table if line.startswith("OP(") and '"' in line]
    except OSError:
        return []


def stop() -> None:
    """End tracing in this process; every slot, type and variable is as it was."""
    if native.core is None:
        return
    imports.unwatch()
    threads.uninstall()
    engine.stop()
    native.core.stop()
    native.core.files_uninstall()
    from pyio_trace.capture import preload

    preload.remove()
    _restore_environment()


def mode() -> str:
    """The mode of this process: one of MODES."""
    return MODES[_core().state()["mode"]]


def switch(mode: str) -> None:
    """Set the mode of this process.  Raises ConfigError, CaptureError."""
    if mode not in MODES:
        near = did_you_mean(str(mode), MODES)
        raise ConfigError("bad-value", f"mode: {mode!r} is not one of {', '.join(MODES)}{near}")
    _core().set_mode(MODES.index(mode))


def paused() -> bool:
    """Whether tracing is paused in this process."""
    return bool(_core().state()["paused"])


def pause(on: bool) -> None:
    """Stop recording, or go on.  Raises CaptureError."""
    _core().pause(on)


def live_path() -> str:
    """The live log of this process's run."""
    return str(_core().state()["path"])


def dump(path: str | None) -> str:
    """Write a copy of the live log as it is; returns its path.  Raises CaptureError."""
    live, core = live_path(), _core()
    names = [path] if path is not None else [f"{live.removesuffix('.pyio')}-dump-{n}.pyio" for n in range(1, 10_000)]
    for name in names:
        try:
            core.dump(os.fsencode(name))
        except FileExistsError:
            continue
        except OSError as problem:
            raise CaptureError("unwritable-log", f"the dump {name!r} cannot be written: {problem.strerror}") from None
        return name
    raise CaptureError("unwritable-log", f"the dump {names[-1]!r} cannot be written: the name is taken")


def _core() -> ModuleType:
    if native.core is None or not native.core.state()["active"]:
        raise CaptureError("not-tracing", "this process is not being traced; start with pyio_trace.trace()")
    return native.core


def _explained(problem: OSError, live: str) -> CaptureError:
    """The user's words for what the core's errno means here."""
    from errno import E2BIG, EEXIST, EFBIG, ENODEV, ENOMEM, ENOSPC, EPROTO, ESTALE

    elsewhere = "name another place with -o"
    not_mapped = f"the log {live!r} cannot be mapped here; {elsewhere} (a local disk, /dev/shm)"
    reasons = {
        E2BIG: ("too-many-rules", "more rules than there is room for (256, 16 KiB): use fewer, wider patterns"),
        EEXIST: ("not-a-file", f"{live!r} is no regular file, and a log would replace it: name a file for the log"),
        EPROTO: ("not-a-log", f"{live!r} is not a live log of this version of pyio_trace"),
        ESTALE: ("run-ended", f"the run of {live!r} has ended"),
        ENOSPC: ("log-disk-full", f"no room for the log {live!r}: the disk is full; {elsewhere}"),
        EFBIG: ("log-limit", f"the file-size limit (ulimit -f) leaves no room for the log {live!r}"),
        ENOMEM: ("log-not-mapped", not_mapped),
        ENODEV: ("log-not-mapped", not_mapped),
    }
    default = ("unwritable-log", f"the log {live!r} cannot be written: {problem.strerror}")
    return CaptureError(*reasons.get(problem.errno or 0, default))


def _tell_children(config: Config, begun: Begun, found: str) -> None:
    """Children inherit the run through the environment, or are told nothing."""
    global _environment_before
    wanted: dict[str, str | None] = {
        **config.to_environment(),
        LOG_VARIABLE: os.path.abspath(begun.live),
        FINAL_VARIABLE: begun.final,  # a program that this one becomes has to know
        FOUND_VARIABLE: found,
        SCRIPT_VARIABLE: script_name(),
    }
    if config.follow == "none":
        wanted = dict.fromkeys(wanted)
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
