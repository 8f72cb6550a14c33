"""``python -m pyio_trace script.py``: this process becomes the traced program.

It executes a plain interpreter that runs the user's program, with the
environment in which auto-enable starts tracing.  So the program has its own
``__main__``, argv, tracebacks, signals and exit status, with no frame of ours
below it, and keeps this process's id.
"""

import os
import sys

from pyio_trace.config import LOG_VARIABLE
from pyio_trace.errors import CaptureError, ConfigError
from pyio_trace.output import log_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from pyio_trace.config import Config

_SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim")


def run(config: "Config", kind: str, target: str, args: list[str]) -> "NoReturn":
    """Replace this process by the traced program.

    kind: "script", "module" or "code"; target: its path, name or text.
    Raises ConfigError or CaptureError if tracing cannot work.  Errors in the
    program are left to the program to report.
    """
    started_by_site = _site_starts_us()
    _check(config, kind, target, started_by_site)
    live, final = log_paths(config.output, {"script": target, "module": target, "code": "command"}[kind])
    _check_writable(live, final)
    environment = {**os.environ, **config.to_environment()}
    environment.pop(LOG_VARIABLE, None)
    if not started_by_site:
        _use_shim(environment)
    prepared = None
    if sys.flags.ignore_environment:  # the program reads its settings from the log
        from pyio_trace.capture.runtime import tracer

        environment[LOG_VARIABLE] = prepared = tracer.prepare(config, live, final)
    script = ["--", target] if target.startswith("-") else [target]
    words = {"script": script, "module": ["-m", target], "code": ["-c", target]}[kind]
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None: closed before this interpreter started
            stream.flush()
    try:
        os.execve(sys.executable, [sys.executable, *_interpreter_flags(), *words, *args], environment)
    except OSError:
        if prepared is not None:
            os.unlink(prepared)
        raise


def _check(config: "Config", kind: str, target: str, started_by_site: bool) -> None:
    """Raise ConfigError or CaptureError for what can be known before a log is made."""
    if not started_by_site:
        from pyio_trace import native  # otherwise the program's interpreter loads the core, and not this one

        if native.core is None:
            raise CaptureError("no-core", f"tracing is not possible here: {native.reason}")
    if kind == "script" and not os.path.exists(target):
        raise ConfigError("no-such-script", f"there is no script {target!r}")
    if kind == "module":
        _check_module(target)
    if config.has_names:
        from pyio_trace.capture.runtime import tracer  # takes milliseconds, so only if there is something to check

        tracer.check(config)
    if sys.flags.no_site:
        raise ConfigError("no-site", "python -S skips the step in which tracing starts; run without -S")


def _check_module(name: str) -> None:
    from importlib.util import find_spec

    sys.path.insert(0, "")  # the current folder, which may be gone
    try:
        found = find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        found = False
    finally:
        sys.path.pop(0)
    if not found:
        raise ConfigError("no-such-module", f"there is no module {name!r}")


def _check_writable(live: str, final: str | None) -> None:
    """Raise CaptureError if a log cannot be made there, while the program has not started yet."""
    probe = os.path.join(os.path.dirname(live), f".pyio-{os.urandom(8).hex()}.tmp")
    try:
        with open(probe, "xb", buffering=0) as file:
            file.write(bytes(1 << 16))
    except OSError as problem:
        raise CaptureError("unwritable-log", f"the log {live!r} cannot be written: {problem.strerror}") from None
    finally:
        try:
            os.unlink(probe)
        except OSError:
            pass


def _site_starts_us() -> bool:
    """Whether an interpreter like this one will read our .pth (or .start) file.

    It then traces with the package installed next to that file, even if this one
    is another: in a clone, `python -m` finds the source tree, which has no core.
    """
    if "_pyio_trace_start" in sys.modules:
        return True  # this interpreter has read it
    import site

    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders = [*folders, site.getusersitepackages()]
    return any(os.path.exists(os.path.join(folder, "pyio_trace.pth")) for folder in folders)


def _use_shim(environment: dict[str, str]) -> None:
    if sys.flags.ignore_environment:
        raise ConfigError(
            "no-auto-enable", "with -E or -I tracing starts only if pyio_trace is installed in site-packages"
        )
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = _SHIM if not before else os.pathsep.join((_SHIM, before))


def _interpreter_flags() -> list[str]:
    """The options that this interpreter was started with, for the next one."""
    given = len(sys.argv) - 1
    words = sys.orig_argv[1 : len(sys.orig_argv) - given]
    flags: list[str] = []
    i = 0
    while i < len(words):
        word = words[i]
        if not word.startswith("-") or word == "-":
            break  # the pyio-trace script
        # Letters may be joined (-Om pyio_trace); m and c end the options; W and X take a value, here or next.
        long = word.startswith("--")
        ends = len(word) if long else next((n for n, letter in enumerate(word) if letter in "mcWX"), len(word))
        if word[ends : ends + 1] in ("m", "c"):
            if ends > 1:
                flags.append(word[:ends])
            break
        takes_next = word == "--check-hash-based-pycs" or ends == len(word) - 1
        flags += words[i : i + 1 + takes_next]
        i += 1 + takes_next
    return flags
