"""Reads [tool.pyio_trace] of a pyproject.toml, and limits what it may do.

The file is found by the current folder alone, and a fresh clone of a stranger's
repository belongs to the user just like the user's own work.  So the file may
choose what is recorded, and name a log beneath its own folder.  It may not
write elsewhere, nor put control characters into a file or on a terminal.

config.py finds and reads the file.  It imports this module only if the file
mentions pyio_trace, so that other traced programs do not wait for tomllib.
"""

from __future__ import annotations

import os
import re
import tomllib

from pyio_trace.errors import ConfigError, is_plain
from pyio_trace.output import LIVE_SUFFIX, PACKED_SUFFIX


def table_of(text: bytes, path: str) -> dict[str, object]:
    """[tool.pyio_trace] of the pyproject.toml at `path`.  Raises ConfigError."""
    try:
        table: object = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError("bad-pyproject", f"{path} cannot be read: {error}") from None
    for name in ("tool", "pyio_trace"):
        table = table.get(name, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise ConfigError(
            "bad-pyproject", f"{path}: pyio_trace is not a table; write [tool.pyio_trace], options below it"
        )
    return table


def check_text(text: str, blame: str) -> None:
    """Raises ConfigError for control and invisible characters: values get into logs, environments and terminals."""
    if not is_plain(text):
        raise ConfigError("bad-value", f"{blame} is {text!a}, with a control character in it; remove that")


def rules_beside(text: str, path: str) -> str:
    """Rules of a pyproject.toml, with relative paths made to start in that file's folder."""
    return ",".join(_rule_beside(word.strip(), os.path.dirname(path)) for word in text.split(","))


def _rule_beside(rule: str, folder: str) -> str:
    return os.path.join(folder, rule) if "/" in rule and rule[0] not in "/~*" else rule


def output_beneath(text: str, path: str) -> str:
    """The value of `output` in a pyproject.toml as an absolute pattern, in that file's folder or beneath.

    Links must not lead out of that folder.  The folder part must exist, since a
    pyproject.toml makes no folders, and has no patterns.  Raises ConfigError.
    """
    blame, home = f"{path}: output", os.path.dirname(path)
    folder, name = os.path.split(text)
    if os.path.isabs(text) or text.startswith("~") or ".." in folder.split("/"):
        raise ConfigError("bad-value", f"{blame} is {text!r}; name a log below this file's folder, or use -o")
    if not name.endswith((LIVE_SUFFIX, PACKED_SUFFIX)):
        raise ConfigError("bad-value", f"{blame} is {text!r}; its name has to end in {LIVE_SUFFIX} or {PACKED_SUFFIX}")
    if "%" in folder:
        raise ConfigError("bad-value", f"{blame} is {text!r}; use % patterns in the log's name, not in its folder")
    real, top = os.path.realpath(os.path.join(home, folder)), os.path.realpath(home)
    if real != top and not real.startswith(top.rstrip("/") + "/"):
        raise ConfigError("bad-value", f"{blame} is {text!r}, and a link leads it out of this file's folder; use -o")
    if not os.path.isdir(real):
        raise ConfigError("no-such-folder", f"{blame} is {text!r}, and there is no folder {real!r}; make it first")
    link = _link_named(name, real)
    if link:
        raise ConfigError("bad-value", f"{blame} is {text!r}, and {link!r} is a link; remove it, or use -o")
    return os.path.join(real.replace("%", "%%"), name)


def _link_named(pattern: str, folder: str) -> str | None:
    """The path of a link in a folder whose name a pattern such as ``%s.parquet`` may stand for; None: there is none."""
    parts = re.findall(r"%.|[^%]+", pattern, re.DOTALL)
    words = ("%" if part == "%%" else ".*" if part[0] == "%" else re.escape(part) for part in parts)
    named = re.compile("".join(words), re.DOTALL)
    with os.scandir(folder) as entries:
        return next((entry.path for entry in entries if named.fullmatch(entry.name) and entry.is_symlink()), None)
