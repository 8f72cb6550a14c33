"""Auto-enable where the package is not in a site directory.

A launch then puts this directory on PYTHONPATH.  It hides the sitecustomize
that the interpreter would have found, so it takes itself out of the path and
hands on to that one.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from os.path import abspath, dirname

_here = dirname(abspath(__file__))
sys.path[:] = [entry for entry in sys.path if abspath(entry or ".") != _here]


def _start() -> None:
    import os

    package_parent = dirname(dirname(dirname(_here)))
    if not os.environ.get("PYIO_TRACE"):
        return
    added = package_parent not in sys.path
    if added:
        sys.path.append(package_parent)
    try:
        from pyio_trace.capture.bootstrap import start_from_environment

        start_from_environment()
    except ImportError as problem:
        os.write(2, f"pyio-trace: not tracing: {problem}\n".encode(errors="replace"))


def _chain() -> None:
    spec = PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_start()
_chain()
