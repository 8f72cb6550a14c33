"""Decides whose a line is: the program's own, a library's, or nobody's.

Nothing else decides it.  By its file, a line is one of

- the user's own: any file outside the folders of installed packages and of the
  standard library; standard input, a cell of a notebook, a doctest, a function
  that another process sent;
- the package's that was started (`python -m black`, or the console script
  `black`): it is the program, wherever it is installed;
- the command's (`python -c`);
- the console script's, which only calls the package;
- an installed package's, the standard library's, or pyio_trace's;
- nobody's: generated code, such as a method of a dataclass or of a manager's proxy
  (`<string>`, `<attrs generated init ...>`).

The site of an operation is the innermost line of the first kind that its stack
has, in this order.  So a user's own line comes before that of the package that
was started: a test before pytest, a view before flask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pyio_trace.join.references.sent_code import DYNAMIC

#: Kinds of lines; those up to COMMAND are the program's.
OWN, STARTED, COMMAND, WRAPPER, INSTALLED, NOBODY, STANDARD, OURS = range(8)

_INSTALLED = r"/(?:site|dist)-packages/(?:[^/]+\.egg/)?"
_STANDARD = r"/lib(?:64)?/(?:python|pypy)\d+(?:\.\d+)?t?/"
#: Matches up to the last such folder in a path; the name of a package or module follows.
FOLDER_OF_LIBRARIES = re.compile(rf".*(?:({_INSTALLED})|{_STANDARD})")
_PACKAGE = Path(__file__).resolve().parents[2]
_PYIO_TRACE = re.compile(
    "^(?:{})/|/(?:site|dist)-packages/pyio_trace(?:_plugins)?/|/_pyio_trace_start\\.py$"
    "|/pyio_trace/(?:(?:analysis|capture|cli|join|log|native|report)/|session\\.py$)|/pyio_trace_plugins/".format(
        "|".join(
            re.escape(str(folder))
            for folder in (
                _PACKAGE,
                _PACKAGE.parent / "pyio_trace_plugins",
                _PACKAGE.parent / "plugins" / "pyio_trace_plugins",
            )
        )
    )
)
#: The file name that `python -c` and most generated code have.
COMMANDS_FILE = "<string>"
#: Code in no file that a person has written: at a prompt, in a notebook, a doctest, a measurement of timeit; sent code.
_TYPED = re.compile(
    r"<(?:stdin|console|input|python-input-\d+|ipython-input-[^>:]*|bpython-input-\d+|pyshell#\d+|doctest [^>:]*"
    rf"|timeit-src|magic-timeit|timed (?:exec|eval))>|{re.escape(DYNAMIC)}"
)
#: Longer commands may be truncated in the log; in others, a secret may have been replaced.
_WHOLE = 1024
_REPLACED = "***"


class OwnCode:
    """Tells the lines of one log apart."""

    def __init__(
        self, packages: Iterable[str] = (), wrappers: Iterable[str] = (), commands: Iterable[str] | None = None
    ) -> None:
        """packages: names of packages and modules that were started; wrappers: files of the console scripts that
        started them; commands: what `python -c` ran, None: not known."""
        self._folders = tuple({name.replace(".", "/") + end for name in packages for end in ("/", ".py")})
        self._wrappers = frozenset(wrappers)
        self._commands = None if commands is None else tuple(commands)

    def kind(self, file: str, function: str = "", outermost: bool = True) -> int:
        """The kind of a line of a file.  outermost: no frame is around it."""
        if file.startswith("<"):
            return self._kind_without_file(file, function, outermost)
        if in_pyio_trace(file):
            return OURS
        folder = FOLDER_OF_LIBRARIES.match(file)
        if folder is None:
            return WRAPPER if file in self._wrappers else OWN
        if self._folders and file.startswith(self._folders, folder.end()):
            return STARTED
        return INSTALLED if folder[1] else STANDARD

    def is_own(self, site: str) -> bool:
        """Whether a line, ``file:line:function``, is the program's: the user's own, or of what was started."""
        return self._of_site(site) <= COMMAND

    def is_users(self, site: str) -> bool:
        """Whether a line is in the user's own files, or in no file."""
        return self._of_site(site) in (OWN, COMMAND)

    def _of_site(self, site: str) -> int:
        if site.startswith("<"):  # generated code is a site only where there is no other line
            return COMMAND if site.startswith(COMMANDS_FILE) else OWN if _TYPED.match(site) else NOBODY
        return self.kind(site.rsplit(":", 2)[0])

    def _kind_without_file(self, file: str, function: str, outermost: bool) -> int:
        if file.startswith("<frozen "):
            return STANDARD
        if _TYPED.fullmatch(file):
            return OWN
        return COMMAND if file == COMMANDS_FILE and self._is_in_command(function, outermost) else NOBODY

    def _is_in_command(self, function: str, outermost: bool) -> bool:
        """Whether a function of a file without a name is one that `python -c` ran, and not one that was generated."""
        name = function.rpartition(".")[2]
        if name == "<module>":  # of a command, or of text passed to an embedded interpreter
            return outermost
        return self._commands is None or any(
            len(text) > _WHOLE or _REPLACED in text or _defines(text, name) for text in self._commands
        )


def _defines(text: str, name: str) -> bool:
    """Whether a function or class of this name may be in a text of Python."""
    if name.startswith("<"):
        return ("lambda" if name == "<lambda>" else "for") in text
    return re.search(rf"\b(?:def|class)\s+{re.escape(name)}\b", text) is not None


def library_of(site: str) -> str:
    """The package that a line, ``file:line:function``, is installed with; "Python": the standard library; "": it is in
    neither."""
    file = site.rsplit(":", 2)[0]
    folder = FOLDER_OF_LIBRARIES.match(file)
    if folder is None:
        return ""
    return file[folder.end() :].partition("/")[0].removesuffix(".py") if folder[1] else "Python"


def in_pyio_trace(file: str) -> bool:
    """Whether a source file belongs to pyio_trace, wherever it is or was installed."""
    return _PYIO_TRACE.search(file) is not None


def module_of(file: str) -> str:
    """The module of a source file as it is imported; of a file in no folder of libraries, its name."""
    if file.startswith("<frozen "):
        return file.removeprefix("<frozen ").removesuffix(">")
    folder = FOLDER_OF_LIBRARIES.match(file)
    path = file[folder.end() :] if folder else file.rpartition("/")[2]
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
