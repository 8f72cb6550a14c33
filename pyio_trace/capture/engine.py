"""Instruments are found, armed when their libraries are imported, and undone.

No list of them is kept anywhere: a file in capture/instruments/ is named as
the library that it is about, a third party's is named by its entry point, and
neither is read before the program imports that library.  How each fares is in
states(): what `pyio-trace doctor` shows; what went wrong is in the process
table too, and so in the summary.
"""

from __future__ import annotations

import os
import sys

from pyio_trace import native
from pyio_trace.capture import imports
from pyio_trace.config import FOUND_VARIABLE
from pyio_trace.errors import ConfigError, say
from pyio_trace.values import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pyio_trace.capture.instrument import Instrument, Target

GROUP = "pyio_trace.instruments"
_PACKAGE = "pyio_trace.capture.instruments."
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instruments")

ACTIVE, WAITING, OFF = "active", "waiting", "off"
UNSUPPORTED, BROKEN = "version not supported", "broken"

_states: dict[str, tuple[str, str]] = {}  # by name: one of the above, and why
_disarm: list[tuple[str, Callable[[], object]]] = []


def start(chosen: str, known: dict[str, str]) -> None:
    """Arm those of the `known` instruments that `chosen` names, now or when their libraries are imported.

    known: of names(), asked before tracing starts; chosen: config.py, --instruments.
    """
    stop()
    for name, where in known.items():
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            _states[name] = OFF, "functions are not watched where threads run without the GIL"
            continue
        if not selected(name, chosen):
            _states[name] = OFF, "not chosen (--instruments)"
            continue
        _states[name] = WAITING, f"{name} has not been imported"
        imports.watch(name, _armer(name, where))


def stop() -> None:
    """Every function as it was."""
    if native.core is not None:
        native.core.unwatch_all()
    while _disarm:
        name, disarm = _disarm.pop()
        try:
            disarm()
        except BaseException as problem:
            if _came_from_outside(problem):
                raise
            say(f"the instrument {name} could not be undone: {type(problem).__name__}: {problem}")
    _states.clear()


def states() -> list[tuple[str, str, str]]:
    """(name, state, why) of each instrument; state: active, waiting, off, "version not supported", "broken"."""
    return [(name, *_states[name]) for name in sorted(_states)]


def names() -> dict[str, str]:
    """The instruments that there are: the library's name, and the module that describes it.

    What begins with an underscore is part of another's (_h5py_cache.py), which imports it.
    """
    ours = {
        file.removesuffix(".py"): _PACKAGE + file.removesuffix(".py")
        for file in sorted(os.listdir(_FOLDER))
        if file.endswith(".py") and not file.startswith("_")
    }
    said = os.environ.get(FOUND_VARIABLE)
    if said is None:
        return {**ours, **_entry_points()}
    return {**ours, **dict(word.split("=", 1) for word in said.split(",") if "=" in word)}


def told(known: dict[str, str]) -> str:
    """Third parties' instruments, for FOUND_VARIABLE: children need not look for them, which costs milliseconds."""
    return ",".join(f"{name}={where}" for name, where in known.items() if not where.startswith(_PACKAGE))


def selected(name: str, chosen: str) -> bool:
    """Whether `chosen` (words with commas: all, none, NAME, -NAME) has this instrument."""
    words, name = [word for word in chosen.split(",") if word], name.lower()  # config.py has them so
    if f"-{name}" in words or "none" in words:
        return False
    return name in words or "all" in words or all(word.startswith("-") for word in words)


def check(chosen: str, known: dict[str, str]) -> None:
    """Raises ConfigError for the name of an instrument that there is not."""
    names = {"all", "none", *(name.lower() for name in known)}
    for word in chosen.split(","):
        name = word.removeprefix("-")
        if name and name not in names:
            raise ConfigError("bad-value", f"instruments: there is none for {name!r}{did_you_mean(name, names)}")


def load(where: str) -> Instrument:
    """The instrument that a module describes: ``"package.module"`` or ``"package.module:name"``."""
    module, _, name = where.partition(":")
    name = name or "instrument"
    # not by importlib, which is a module that the program may not have
    found: Instrument = getattr(__import__(module, fromlist=(name,)), name)
    return found


# ---- finding ---------------------------------------------------------------------------


def _entry_points() -> dict[str, str]:
    """Of our group, by name.  importlib.metadata would import half of the standard library to tell."""
    found: dict[str, str] = {}
    library = "{}/{}/python{}.{}".format(sys.base_prefix, sys.platlibdir, *sys.version_info)
    for folder in sys.path:
        if folder in (library, f"{library}/lib-dynload"):
            continue  # hundreds of names, and no distribution among them
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            text = _text_of(f"{folder or '.'}/{name}/entry_points.txt") if name.endswith(".dist-info") else ""
            if GROUP in text:
                found = {**_section(text), **found}  # the first on the path counts, as for imports
    return found


def _text_of(path: str) -> str:
    """A small file's text, "" where there is none: by calls of the system, since there may be hundreds of them."""
    if not os.access(path, os.R_OK):  # an exception takes several times as long
        return ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = iter(lambda: os.read(descriptor, 1 << 16), b"")
        return b"".join(parts).decode()
    except (OSError, UnicodeDecodeError):
        return ""
    finally:
        os.close(descriptor)


def _section(text: str) -> dict[str, str]:
    found, within = {}, False
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            within = line == f"[{GROUP}]"
        elif within and "=" in line and not line.startswith(("#", ";")):
            name, _, where = line.partition("=")
            found[name.strip()] = where.partition("[")[0].strip()
    return found


# ---- arming ----------------------------------------------------------------------------


def _armer(name: str, where: str) -> Callable[[ModuleType], None]:
    return lambda module: _arm(name, where, module)


def _target_armer(name: str, target: Target) -> Callable[[ModuleType], None]:
    return lambda module: _arm_target(name, target, module)


def _arm(name: str, where: str, module: ModuleType) -> None:
    """The library has been imported.  What goes wrong costs the instrument, not the program."""
    try:
        instrument = load(where)
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
            imports.watch(target.module or instrument.module, _target_armer(name, target))
    except BaseException as problem:  # SystemExit too
        if _came_from_outside(problem):
            raise
        _set_state(name, BROKEN, f"{type(problem).__name__}: {problem}")


def _arm_target(name: str, target: Target, module: ModuleType) -> None:
    missing_is_no_fault = target.optional
    try:
        why_not = watch(target, module)
    except BaseException as problem:
        if _came_from_outside(problem):
            raise
        why_not = f"{type(problem).__name__}: {problem}"
        missing_is_no_fault = False
    if why_not and not missing_is_no_fault:
        _set_state(name, BROKEN, f"{target.where}: {why_not}")


def _came_from_outside(problem: BaseException) -> bool:
    from pyio_trace.capture.faults import came_from_outside  # not at every start

    return came_from_outside(problem)


def _set_state(name: str, state: str, why: str) -> None:
    before = _states.get(name)
    if before is not None and before[0] == state:
        why = f"{before[1]}; {why}"
    elif native.core is not None:
        native.core.note(f"instrument {name}: {state}: {why}")
    _states[name] = state, why


def watch(target: Target, module: ModuleType) -> str | None:
    """Watch one function; returns why that cannot be."""
    from pyio_trace.capture.instrument import KINDS, MOVED  # not at every start: `target` has brought it

    found = find(module, target.where)
    if found is None:
        return f"{module.__name__} has no {target.where}"
    assert native.core is not None  # nothing is armed without it
    index, keyword, path = -1, None, None
    if isinstance(target.path, str):
        index, keyword = _position(found, target.path, target.position), target.path
    elif target.path is not None:
        path = target.path
    moved = MOVED.index(target.moved) if not callable(target.moved) else len(MOVED)
    why_not: str | None = native.core.watch(
        found, name_of(target, module), KINDS.index(target.kind), index, keyword, path, target.details, target.after,
        moved, target.moved if callable(target.moved) else None, target.hands_over,
        isinstance(_attribute(module, target.where), property), target.steps,
    )  # fmt: skip
    return why_not


def name_of(target: Target, module: ModuleType) -> str:
    """What the log calls it."""
    if target.name or "." in target.where:
        return target.name or target.where
    return f"{module.__name__.partition('.')[0]}.{target.where}"


def find(module: ModuleType, where: str) -> object | None:
    """The function itself, out of a staticmethod and its like."""
    found = _attribute(module, where)
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    if isinstance(found, property):
        found = found.fget
    if type(found).__name__ == "instancemethod":  # pybind11's: a builtin function within
        found = found.__func__  # type: ignore[attr-defined]
    # numpy's dispatcher, which other code may have kept: what it goes on to is a function of Python
    found = getattr(found, "_implementation", found)
    if type(found).__name__ == "cython_function_or_method":  # a decorator made by Cython has no such pointer: likewise
        found = getattr(found, "__wrapped__", found)
    return found


def _attribute(module: ModuleType, where: str) -> object | None:
    """What is there: a class's is taken from its dictionary, as it is."""
    owner: object = module
    *classes, last = where.split(".")
    for name in classes:
        owner = getattr(owner, name, None)
    return vars(owner).get(last) if isinstance(owner, type) else getattr(owner, last, None)


def _position(function: object, name: str, said: int | None) -> int:
    if said is not None:
        return said
    code = getattr(function, "__code__", None)
    names = getattr(code, "co_varnames", ())[: getattr(code, "co_argcount", 0)]
    return names.index(name) if name in names else -1
