"""``python -m pyio_trace script.py``: becoming the traced program.

The launcher replaces itself with a plain interpreter that runs the user's
program, with the environment that makes auto-enable start tracing in it.  So
the program has its own ``__main__``, argv, tracebacks, signals and exit
status, with nothing of ours around it, and keeps this process's id.
"""

from __future__ import annotations

import os
import sys

from pyio_trace.config import LOG_VARIABLE, output_paths
from pyio_trace.errors import CaptureError, ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from pyio_trace.config import Config

_HERE = os.path.dirname(os.path.abspath(__file__))
_SHIM = os.path.join(_HERE, "shim")


def run(config: Config, kind: str, target: str, args: list[str]) -> NoReturn:
    """Replace this process by the traced program.

    kind: "script", "module" or "code"; target: its path, name or text.
    Raises ConfigError or CaptureError where that cannot work; what the program
    itself does wrong is its own to report.
    """
    started_by_site = _site_starts_us()
    if not started_by_site:
        from pyio_trace import native  # else it is the other interpreter's to load

        if native.core is None:
            raise CaptureError("no-core", f"tracing is not possible here: {native.reason}")
    if kind == "script" and not os.path.exists(target):
        raise ConfigError("no-such-script", f"there is no script {target!r}")
    if kind == "module":
        _check_module(target)
    if config.instruments not in ("all", "none") or "op:" in config.include + config.exclude:
        from pyio_trace.capture import online  # milliseconds, where nothing was said that could be wrong

        online.check(config)
    if sys.flags.no_site:
        raise ConfigError("no-site", "python -S skips the step in which tracing starts; run without -S")
    _check_writable(*output_paths(config, {"script": target, "module": target, "code": "command"}[kind]))
    environment = {**os.environ, **config.to_environment()}
    environment.pop(LOG_VARIABLE, None)
    if not started_by_site:
        _use_shim(environment)
    script = ["--", target] if target.startswith("-") else [target]
    words = {"script": script, "module": ["-m", target], "code": ["-c", target]}[kind]
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed before we began
            stream.flush()
    os.execve(sys.executable, [sys.executable, *_interpreter_flags(), *words, *args], environment)


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
    """Whether a log can be started there; the program has not begun, so say so now."""
    probe = f"{live}.{os.getpid()}.tmp"
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

    It then traces with the copy installed there, also when this one is another:
    a source tree without a core, which `python -m` finds first in a clone.
    """
    if "_pyio_trace_start" in sys.modules:
        return True  # this one has
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
    """The options this interpreter was started with, for the one that follows."""
    given = len(sys.argv) - 1
    words = sys.orig_argv[1 : len(sys.orig_argv) - given]
    flags: list[str] = []
    i = 0
    while i < len(words):
        word = words[i]
        if not word.startswith("-") or word == "-":
            break  # the pyio-trace script
        # Letters may be joined (-Om pyio_trace); m and c are the last, W and X have a value, here or in the next word.
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
