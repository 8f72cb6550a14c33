"""`python -m pyio_trace [options] script.py [args]`: from words to a traced program.

Options are read by hand from the table in config.py, as Python reads its own:
up to the first word that is not an option; -m and -c end them too, and all
words after the target are the program's.
"""

from __future__ import annotations

import os

from pyio_trace.config import BY_NAME, OPTIONS, RULES, Option, load
from pyio_trace.errors import ConfigError
from pyio_trace.values import did_you_mean

_BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}
# Options of the interpreter itself, which people put in the wrong place.
_INTERPRETER = frozenset("bBdEiIOPsSuvWxX")


def launch(arguments: list[str], commands: tuple[str, ...]) -> int:
    """Trace the program that `arguments` name; returns its exit status, if it comes back at all."""
    options, kind, target, rest = parse(arguments, commands)
    config = load(options)
    from pyio_trace.capture.launch import run

    status: int = run(config, kind, target, rest)
    return status


def parse(arguments: list[str], commands: tuple[str, ...] = ()) -> tuple[dict[str, str], str, str, list[str]]:
    """(options by field of Config, kind, target, the program's arguments).

    kind: "script", "module" or "code".  commands: to see a misspelt command in
    a script that is not there.  Raises ConfigError for what cannot be meant.
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
    """Enter the option at hand; returns where to go on."""
    flag, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
    option = _BY_FLAG.get(flag)
    if option is None and not word.startswith("--"):  # -oPATH
        option, value = _BY_FLAG.get(word[:2]), word[2:]
        equals = "=" if option is not None and option.metavar else ""
        option = option if equals else None
        flag = word[:2] if equals else flag
    if option is None:
        raise _unknown(flag)
    if not option.metavar:
        if equals:
            raise ConfigError("bad-value", f"{flag} takes no value")
        value = "1"
    elif not equals:
        value, at = _following(arguments, at, flag)
    _enter(options, option, flag, value)
    return at


def _enter(options: dict[str, str], option: Option, flag: str, value: str) -> None:
    before = options.get(option.name)
    if before and option.name in RULES:
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


def _unknown(flag: str) -> ConfigError:
    if len(flag) >= 2 and flag[0] == "-" and flag[1] in _INTERPRETER:
        return ConfigError("unknown-option", f"{flag} is an option of Python: write python {flag} -m pyio_trace ...")
    near = did_you_mean(flag, [*_BY_FLAG, "--help", "--version"])
    return ConfigError("unknown-option", f"there is no option {flag}{near}")


def runnable(word: str, commands: tuple[str, ...] = ()) -> str:
    """The script, if there is one; a folder or archive with a __main__.py is one too.  Raises ConfigError."""
    if os.path.isdir(word) and not os.path.isfile(os.path.join(word, "__main__.py")):
        raise ConfigError("no-such-script", f"{word!r} is a folder without a __main__.py; name a script")
    if os.path.exists(word):
        return word
    if word == "-":
        raise ConfigError("no-such-script", "standard input cannot be traced as a program; write it to a file")
    hint = "" if "/" in word or "." in word else did_you_mean(word, [name for name in commands if name not in BY_NAME])
    raise ConfigError(
        "no-such-script", f"there is no script {word!r}{hint or '; check its name and the current folder'}"
    )
