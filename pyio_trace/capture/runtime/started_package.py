"""Which installed packages this process was started as: by `python -m package`, or by a console script.

Their lines are the program's, wherever they are installed.  A console script (of
pip, uv, conda, setuptools ...) is a short text that imports a function and
calls it: it is read.  Nothing is imported, since that would run the program's
code.  A package's distribution may have further packages (pytest has _pytest);
its RECORD names them.
"""

import os
import sys

from pyio_trace.values import program_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Longer scripts do more than call a function.
_LONGEST_SCRIPT = 4096
#: What comes before the call in a console script.
_ENDS = ("sys.exit(", "exit(", "raise SystemExit(")
#: Bytes of a RECORD that are read.
_LONGEST_RECORD = 1 << 18
#: The most packages and modules of a distribution that are named.
_MOST = 16


def started_packages() -> "list[str]":
    """Names of packages and modules, the one that was started first; [] if none was, or it is not installed."""
    try:
        kind, what = program_of(sys.orig_argv[1:])
        module = what if kind == "m" else _called_by(what) if kind == "" and what not in ("", "-") else ""
        return _packages(module) if module else []
    except (OSError, ValueError):  # a name with a zero byte, a folder that may not be read
        return []


def _called_by(script: str) -> str:
    """The module whose function a console script calls, or ":" and the distribution; "": it is no such script."""
    if script.endswith((".py", ".pyz", ".zip")):
        return ""
    text = _text_of(script, _LONGEST_SCRIPT)
    if len(text) >= _LONGEST_SCRIPT:
        return ""
    modules, found = {}, ""  # no regular expressions: the program may not have imported re
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[::2] == ["from", "import"] and line[0] == "f":
            modules[words[3]] = words[1]
        for end in _ENDS:
            before, ends, called = line.partition(end)
            if ends and not before.strip():
                found = _module_of(called.strip(), modules) or found
    return found


def _module_of(called: str, modules: "dict[str, str]") -> str:
    """The module of the function in a call such as `main())`.  modules: the module of each imported name."""
    function, _, arguments = called.partition("(")
    if function in ("load_entry_point", "importlib_load_entry_point", "import_module"):
        name = arguments[1:].partition(arguments[:1])[0] if arguments[:1] in ("'", '"') else ""
        return name if function == "import_module" else f":{name.partition('==')[0]}"
    if not arguments.startswith(")") or not function.replace(".", "").isidentifier():
        return ""
    first, _, rest = function.partition(".")
    return modules.get(first, function.rpartition(".")[0] if rest else "")


def _text_of(path: str, most: int) -> str:
    """The beginning of a regular file; "" for anything else, since reading a pipe would empty it."""
    import stat

    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.read(descriptor, most).decode("utf-8", "replace") if regular else ""
    finally:
        os.close(descriptor)


def _packages(module: str) -> "list[str]":
    """The packages of the distribution that a module belongs to."""
    for folder in sys.path:
        if not os.path.isabs(folder):
            continue
        own = "" if module.startswith(":") else _package_in(folder, module)
        if own or module.startswith(":"):
            record = _record(folder, own or module[1:]) if folder.endswith("-packages") else ""
            others = [name for name in _tops(record.splitlines()) if name != own]
            if own or others:
                return ([own] if own else []) + others[:_MOST]
    return []


def _package_in(folder: str, module: str) -> str:
    """The outermost package or module around a module that has code of its own, which namespace packages have not; ""
    if the module is not in the folder."""
    path, parts = folder, module.split(".")
    for count, part in enumerate(parts, 1):
        path = f"{path}/{part}"
        if os.path.isfile(f"{path}/__init__.py") or os.path.isfile(f"{path}.py"):
            return ".".join(parts[:count])
        if not part or not os.path.isdir(path):
            return ""
    return module if os.path.isfile(f"{path}/__main__.py") else ""


def _record(folder: str, name: str) -> str:
    """The list of the files of the distribution of this name in a folder; "" if there is none."""
    wanted = _normal(name)
    for entry in os.listdir(folder):
        if entry.endswith(".dist-info") and _normal(entry.partition("-")[0]) == wanted:
            return _text_of(f"{folder}/{entry}/RECORD", _LONGEST_RECORD)
    return ""


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-").strip("-")


def _tops(record: "Iterable[str]") -> "Iterator[str]":
    """The packages and modules at the top of a distribution."""
    for line in record:
        path = line.partition(",")[0]
        name = path.removesuffix("/__init__.py") if path.endswith("/__init__.py") else path.removesuffix(".py")
        if name != path and "/" not in name and name.isidentifier():
            yield name
