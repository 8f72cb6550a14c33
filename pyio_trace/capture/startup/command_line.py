"""Parses `python -m pyio_trace [options] script.py [args]` and launches the program.

Options from the table in config.py are parsed by hand, as Python parses its own:
up to the first word that is not an option, or to -m or -c.  All words after the
target belong to the program.
"""

import os
import sys

from pyio_trace.config import BY_NAME, LIST, OPTIONS, Option, load
from pyio_trace.errors import ConfigError
from pyio_trace.values import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}
# Options of the interpreter itself, which people put after `-m pyio_trace` by mistake.
_INTERPRETER = frozenset("bBdEiIOPsSuvWxX")
_VALUED = ("-W", "-X")  # they take the next word
# Interpreters that a script's first line may name, and that do not read Python.
_OTHER_LANGUAGES = frozenset(
    (b"sh", b"ash", b"bash", b"dash", b"ksh", b"zsh", b"fish", b"csh", b"tcsh", b"perl", b"ruby", b"node", b"Rscript",
     b"awk", b"gawk", b"lua", b"php", b"tclsh", b"make")
)  # fmt: skip
_AS_A_CHILD = "pyio-trace --follow=all -c 'import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))'"


def launch(arguments: list[str], commands: tuple[str, ...] = ()) -> "NoReturn":
    """Replace this process by the program that `arguments` name, traced.

    commands: names to suggest where the script does not exist, since one of
    them may be misspelt.  The caller has checked that the process is not
    privileged.  Raises ConfigError or CaptureError.
    """
    options, kind, target, rest = parse(arguments, commands)
    config = load(options)
    from pyio_trace.capture.startup.reexec import run

    run(config, kind, target, rest)


def launch_early() -> None:
    """Launch the program while the interpreter of `python -m pyio_trace` is still starting, if that is possible.

    Returns where the first word may be a command (a script's name with no dot
    and no slash could be one) and where anything is wrong: the interpreter goes
    on to cli/main.py, which reports it.
    """
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        arguments = arguments[1:]
    elif not arguments or not (arguments[0].startswith("-") or "." in arguments[0] or "/" in arguments[0]):
        return
    try:
        launch(arguments)
    except Exception:
        pass
    except KeyboardInterrupt:
        os._exit(130)  # as main() ends; an interpreter that is starting would take it for an error of its own


def parse(arguments: list[str], commands: tuple[str, ...] = ()) -> tuple[dict[str, str], str, str, list[str]]:
    """(options by field of Config, kind, target, the program's arguments).

    kind: "script", "module" or "code".  commands: names to suggest where the
    script does not exist.  Raises ConfigError.
    """
    options: dict[str, str] = {}
    at = 0
    while at < len(arguments):
        word = arguments[at]
        at += 1
        if word == "--":
            break
        if word in ("-m", "-c") or (word.startswith(("-m", "-c")) and not word.startswith("--")):
            kind = "module" if word[1] == "m" else "code"
            target = word[2:]
            if not target:
                target, at = _following(arguments, at, word)
            return options, kind, target, arguments[at:]
        if not word.startswith("-") or word == "-":
            at -= 1
            break
        at = _option(word, arguments, at, options)
    if at >= len(arguments):
        raise ConfigError("no-program", "which program? Write: pyio-trace [options] script.py [args]")
    return options, "script", runnable(arguments[at], commands), arguments[at + 1 :]


def _option(word: str, arguments: list[str], at: int, options: dict[str, str]) -> int:
    """Add the option `word` to `options`; returns the index of the next word."""
    flag, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
    option = _BY_FLAG.get(flag)
    if option is None and not word.startswith("--"):  # -oPATH
        option, value = _BY_FLAG.get(word[:2]), word[2:]
        equals = "=" if option is not None and option.metavar else ""
        option = option if equals else None
        flag = word[:2] if equals else flag
    if option is None:
        raise _unknown(flag, arguments[at : at + 1])
    if not option.metavar:
        if equals:
            raise ConfigError("bad-value", f"{flag} takes no value")
        value = "1"
    elif not equals:
        value, at = _following(arguments, at, flag)
    _add(options, option, flag, value)
    return at


def _add(options: dict[str, str], option: Option, flag: str, value: str) -> None:
    before = options.get(option.name)
    if before and option.type == LIST:
        options[option.name] = f"{before},{value}"
        return
    if before is not None and before != value:
        raise ConfigError("contradictory-options", f"{flag} is given as {before!r} and as {value!r}; give it once")
    options[option.name] = value


def _following(arguments: list[str], at: int, flag: str) -> tuple[str, int]:
    if at >= len(arguments):
        option = _BY_FLAG.get(flag)
        what = option.metavar if option else "MODULE" if flag == "-m" else "CODE"
        raise ConfigError("missing-value", f"{flag} needs a value: {flag} {what}")
    return arguments[at], at + 1


def _unknown(flag: str, following: list[str]) -> ConfigError:
    if len(flag) >= 2 and flag[0] == "-" and flag[1] in _INTERPRETER:
        words = " ".join([flag, *following] if flag in _VALUED else [flag])
        return ConfigError("unknown-option", f"{flag} is an option of Python: write python {words} -m pyio_trace ...")
    near = did_you_mean(flag, [*_BY_FLAG, "--help", "--version"])
    return ConfigError("unknown-option", f"there is no option {flag}{near}")


def runnable(word: str, commands: tuple[str, ...] = ()) -> str:
    """The script, which may be a folder or an archive with a __main__.py.  Raises ConfigError if there is none."""
    if os.path.isdir(word) and not os.path.isfile(os.path.join(word, "__main__.py")):
        raise ConfigError("no-such-script", f"{word!r} is a folder without a __main__.py; name a script")
    if os.path.exists(word):
        if _is_another_program(word):
            raise ConfigError(
                "no-python-script", f"{word!r} is no Python script; trace it by: {_AS_A_CHILD} {word} ..."
            )
        return word
    if word == "-":
        raise ConfigError("no-such-script", "standard input cannot be traced as a program; write it to a file")
    if "/" in word or "." in word:
        raise ConfigError("no-such-script", f"there is no script {word!r}; check its name and the current folder")
    hint = did_you_mean(word, [name for name in commands if name not in BY_NAME])
    raise ConfigError("no-such-script", f"there is no command or script {word!r}{hint or '; see pyio-trace --help'}")


def _is_another_program(path: str) -> bool:
    """Whether a file is a compiled program, or a script in another language."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb", buffering=0) as file:
            first, _, second = file.read(512).partition(b"\n")
    except OSError:
        return False  # the interpreter will say why
    if first.startswith(b"\x7fELF"):
        return True
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    names = [os.path.basename(word) for word in words if not word.startswith(b"-")]
    if names[:1] == [b"env"]:
        names = names[1:]
    # installers write a shell line that runs Python where the name of the interpreter is too long for a first line
    return names[:1] != [] and names[0] in _OTHER_LANGUAGES and b"exec" not in second
