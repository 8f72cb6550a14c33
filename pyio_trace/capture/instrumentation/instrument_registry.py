"""What is watched once its module is imported: libraries with an instrument, and what hands work to other threads.

No list of instruments is kept: a file in capture/instruments/ is named after
its library, a third party's instrument is named by its entry point, and neither
is read before the program imports that library.  states() tells how each is
doing, for `pyio-trace doctor`; what went wrong is also in the process table and
so in the summary.

Work that is given to another thread runs under the span in which it was given.
The public classes stay as they are.  An executor creates one private object for
each piece of work, where it is submitted, and runs it in one of its threads:
that object's two methods are replaced by ones that record the span and the
submitter's stack, and restore them (csrc/ext/context/work_items.c; asyncio.to_thread and
run_in_executor use the same object).  One C function starts a thread, one
method of Python's runs each step of an asyncio task, and another takes callbacks
from other threads (call_soon_threadsafe, which run_coroutine_threadsafe calls):
these are watched in place (csrc/ext/watch/hand_over.c), and so is Context.run(),
by which trio, anyio and others run tasks and what their threads are given.
uvloop runs its callbacks between two calls of its C code, and asyncio the first
step of an eager task (context/uvloop.c).  greenlet switches by two methods, and by
C functions, which gevent calls (watch/greenlets.c).
"""

import os
import sys

from pyio_trace import native
from pyio_trace.capture.instrumentation import import_hooks
from pyio_trace.errors import ConfigError
from pyio_trace.values import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pyio_trace.capture.instrumentation.instrument import Target

GROUP = "pyio_trace.instruments"
_PACKAGE = "pyio_trace.capture.instruments."
_FOLDER = os.path.join(native.package_folder(), "capture", "instruments")

ACTIVE, WAITING, OFF = "active", "waiting", "off"
UNSUPPORTED, BROKEN = "version not supported", "broken"

#: Modules whose calls carry the span to other threads and tasks: what the doctor calls them.
CARRIERS = {
    "concurrent.futures.thread": "ThreadPoolExecutor", "threading": "threads", "asyncio.events": "asyncio tasks",
    "asyncio.base_events": "asyncio callbacks", "uvloop.loop": "uvloop tasks", "contextvars": "trio tasks, contexts",
    "greenlet": "greenlets",
}  # fmt: skip
_STARTS, _STEPS, _SUBMITS, _ENTERS, _SENDS, _SWITCHES = 1, 2, 4, 7, 8, 9  # enum pt_role in csrc/ext/watch/target.h
#: Copies of cloudpickle.  From 3.1.2 on, the code that it sends is of no file; the sender notes which one it was.
_CLOUDPICKLE = tuple(f"{package}cloudpickle.cloudpickle" for package in ("", "joblib.externals.", "pyspark.", "ray."))

_states: "dict[str, tuple[str, str]]" = {}  # by name: one of the states above, and the reason
_disarm: "list[tuple[str, Callable[[], object]]]" = []
_replaced: "list[tuple[type, str, object, object]]" = []  # owner, name, original, replacement
_carrying: "set[str]" = set()  # modules of CARRIERS


def start(chosen: str, known: "dict[str, str]") -> None:
    """Watch what hands work over, and arm those of the `known` instruments that `chosen` names.

    Either happens now, or when the module is imported.  known: from names(),
    called before tracing starts.  chosen: the option `instruments`.
    """
    stop()
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    for name, where in known.items():
        if not has_gil:
            _states[name] = OFF, "functions are not watched where threads run without the GIL"
            continue
        if not selected(name, chosen):
            _states[name] = OFF, "not chosen (--instruments)"
            continue
        _states[name] = WAITING, f"{name} has not been imported"
        import_hooks.watch(name, _armer(name, where))
    for name in CARRIERS:
        import_hooks.watch(name, _carry)
    for name in _CLOUDPICKLE:
        import_hooks.watch(name, _note_sent_code)
    import_hooks.time_imports()


def stop() -> None:
    """Put every function back."""
    if native.core is not None:
        native.core.unwatch_all()
    while _replaced:
        owner, name, original, replacement = _replaced.pop()
        if owner.__dict__.get(name) is replacement:  # else another tool has wrapped it since, and calls ours: leave it
            setattr(owner, name, original)
    _carrying.clear()
    while _disarm:
        name, disarm = _disarm.pop()
        try:
            disarm()
        except BaseException as problem:
            if _came_from_outside(problem):
                raise
            native.say(f"the instrument {name} could not be undone: {type(problem).__name__}: {problem}")
    _states.clear()


def states() -> "list[tuple[str, str, str]]":
    """(name, state, reason) of each instrument; state: active, waiting, off, "version not supported" or "broken"."""
    return [(name, *_states[name]) for name in sorted(_states)]


def carries(module: str) -> bool:
    """Whether that module of CARRIERS hands the span over."""
    return module in _carrying


# ---- which there are -------------------------------------------------------------------


def names(third_party: "str | None" = None) -> "dict[str, str]":
    """All instruments: the library's name, and the module that describes it.

    third_party: what encode_third_party() returned in the run's first process;
    None: search the entry points.  A file whose name begins with an underscore
    is a part of another instrument (_h5py_cache.py).
    """
    ours = {
        file.removesuffix(".py"): _PACKAGE + file.removesuffix(".py")
        for file in sorted(os.listdir(_FOLDER))
        if file.endswith(".py") and not file.startswith("_")
    }
    if third_party is None:
        theirs = _entry_points()
    else:
        theirs = dict(word.split("=", 1) for word in third_party.split(",") if "=" in word)
    return {**ours, **_sound(theirs)} if theirs else ours


def _sound(entries: "dict[str, str]") -> "dict[str, str]":
    """Those that name a module for a library."""
    from pyio_trace.entry_points import is_dotted

    return {name: where for name, where in entries.items() if is_dotted(name) and is_dotted(where)}


def encode_third_party(known: "dict[str, str]") -> str:
    """Third parties' instruments, for FOUND_VARIABLE: searching for them again would cost children milliseconds."""
    return ",".join(f"{name}={where}" for name, where in known.items() if not where.startswith(_PACKAGE))


def selected(name: str, chosen: str) -> bool:
    """Whether `chosen` (words separated by commas: all, none, NAME, -NAME) includes this instrument."""
    if chosen == "all":
        return True
    words, name = [word for word in chosen.split(",") if word], name.lower()  # parse_names() has made them lower case
    if f"-{name}" in words or "none" in words:
        return False
    return name in words or "all" in words or all(word.startswith("-") for word in words)


def check(chosen: str, known: "dict[str, str]") -> None:
    """Raises ConfigError for the name of an instrument that does not exist."""
    names = {"all", "none", *(name.lower() for name in known)}
    for word in chosen.split(","):
        name = word.removeprefix("-")
        if name and name not in names:
            raise ConfigError(
                "bad-value", f"instruments: there is no instrument for {name!r}{did_you_mean(name, names)}"
            )


def _entry_points() -> "dict[str, str]":
    """Entry points of our group, by name.  importlib.metadata would import half of the standard library."""
    if native.core is None:  # nothing is traced, and only names are checked
        from pyio_trace.entry_points import of_group

        return of_group(GROUP, sys.path)
    found: dict[str, str] = {}
    library = "{}/{}/python{}.{}".format(sys.base_prefix, sys.platlibdir, *sys.version_info)
    for folder in sys.path:
        if folder in (library, f"{library}/lib-dynload"):
            continue  # hundreds of names, and no distribution among them
        try:
            where = os.fsencode(folder or ".")
            texts = native.core.entry_points_that_mention(where, GROUP.encode())
        except (OSError, ValueError, TypeError):
            continue  # a folder that does not exist, a zip file, or not a path at all
        for text in texts:
            from pyio_trace.entry_points import section  # few programs have such distributions

            found = {**section(text.decode(errors="replace"), GROUP), **found}  # the first on the path, as for imports
    return found


# ---- arming instruments ----------------------------------------------------------------


def _armer(name: str, where: str) -> "Callable[[ModuleType], None]":
    return lambda module: _arm(name, where, module)


def _target_armer(name: str, target: "Target") -> "Callable[[ModuleType], None]":
    return lambda module: _arm_target(name, target, module)


def _arm(name: str, where: str, module: "ModuleType") -> None:
    """The library has just been imported.  A failure disables the instrument and does not reach the program."""
    try:
        from pyio_trace.capture.instrumentation import watching

        instrument = watching.load(where)
        unsupported = instrument.unsupported(module)
        if unsupported:
            _set_state(name, UNSUPPORTED, unsupported)
            return
        _states[name] = ACTIVE, ""
        if instrument.arm is not None:
            instrument.arm(module)
        if instrument.disarm is not None:
            _disarm.append((name, instrument.disarm))
        for target in instrument.targets:
            import_hooks.watch(target.module or instrument.module, _target_armer(name, target))
    except BaseException as problem:  # SystemExit too
        if _came_from_outside(problem):
            raise
        _set_state(name, BROKEN, f"{type(problem).__name__}: {problem}")


def _arm_target(name: str, target: "Target", module: "ModuleType") -> None:
    from pyio_trace.capture.instrumentation import watching

    may_be_missing = target.optional
    try:
        why_not = watching.watch(target, module)
    except BaseException as problem:
        if _came_from_outside(problem):
            raise
        why_not = f"{type(problem).__name__}: {problem}"
        may_be_missing = False
    if why_not and not may_be_missing:
        _set_state(name, BROKEN, f"{target.where}: {why_not}")


def _came_from_outside(problem: BaseException) -> bool:
    from pyio_trace.capture.instrumentation.exception_origin import came_from_outside  # rarely needed

    return came_from_outside(problem)


def _set_state(name: str, state: str, why: str) -> None:
    before = _states.get(name)
    if before is not None and before[0] == state:
        why = f"{before[1]}; {why}"
    elif native.core is not None:
        native.core.note(f"instrument {name}: {state}: {why}")
    _states[name] = state, why


# ---- handing work over -----------------------------------------------------------------


def _carry(module: "ModuleType") -> None:
    """One of CARRIERS has just been imported."""
    name = module.__name__
    if name == "concurrent.futures.thread":
        _carry_in_executor(module)
    elif name == "threading":
        # 3.13 and later use the first; the second is for code that bypasses threading
        for function in ("_start_joinable_thread", "_start_new_thread"):
            _hands_over(name, getattr(module, function, None), _STARTS)
    elif name == "asyncio.events":
        _hands_over(name, module.Handle.__dict__["_run"], _STEPS)
        eager = sys.modules.get("_asyncio")  # from 3.12 on, its eager tasks enter their contexts by themselves
        if native.core is not None and eager is not None and sys.version_info >= (3, 12):
            native.core.watch_context_switches(eager)
    elif name == "asyncio.base_events":
        _hands_over(name, module.BaseEventLoop.__dict__["call_soon_threadsafe"], _SUBMITS)
    elif name == "contextvars":
        _hands_over(name, module.Context.__dict__["run"], _ENTERS)
    elif name == "greenlet":
        _carry_in_greenlets(module)
    elif native.core is not None and native.core.watch_context_switches(module):  # uvloop.loop
        _hands_over(name, module.Loop.__dict__.get("call_soon_threadsafe"), _SUBMITS)
        _carrying.add(name)


def _carry_in_greenlets(module: "ModuleType") -> None:
    owner = getattr(module, "greenlet", None)
    functions = getattr(sys.modules.get("greenlet._greenlet"), "_C_API", getattr(module, "_C_API", None))
    if native.core is not None and isinstance(owner, type) and native.core.watch_greenlets(owner, functions):
        for function in ("switch", "throw"):
            _hands_over("greenlet", owner.__dict__[function], _SWITCHES)


def _note_sent_code(module: "ModuleType") -> None:
    reduce = getattr(module, "_code_reduce", None)
    if reduce is not None and native.core is not None:
        native.core.watch(reduce, "", role=_SENDS)


def _carry_in_executor(module: "ModuleType") -> None:
    if native.core is None:
        return
    owner = module._WorkItem
    core = native.core
    for name, wrap in (("__init__", core.capture_context_in), ("run", core.run_in_captured_context)):
        original = owner.__dict__[name]
        replacement = wrap(original)
        setattr(owner, name, replacement)
        _replaced.append((owner, name, original, replacement))
    _carrying.add(module.__name__)


def _hands_over(module: str, function: object, how: int) -> None:
    if function is None or native.core is None:
        return
    if native.core.watch(function, "", role=how) is None:
        _carrying.add(module)
