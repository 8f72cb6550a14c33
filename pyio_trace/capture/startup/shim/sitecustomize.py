"""Starts tracing where the package is not in a site directory.

A launch then puts this directory on PYTHONPATH.  This file hides the
sitecustomize that the interpreter would have found, so it removes itself from
the path and runs that one.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from os.path import abspath, dirname, join

_here = dirname(abspath(__file__))
sys.path[:] = [entry for entry in sys.path if abspath(entry or ".") != _here]


def _start() -> None:
    import os

    if not os.environ.get("PYIO_TRACE"):
        return
    spec = PathFinder.find_spec("_pyio_trace_start", [join(dirname(_here), "site_packages")])
    if spec is None or spec.loader is None:
        return
    ours = module_from_spec(spec)
    spec.loader.exec_module(ours)
    if ours.is_privileged():
        return
    package_parent = dirname(dirname(dirname(dirname(_here))))
    if package_parent not in sys.path:
        sys.path.append(package_parent)
    ours.trace_if_asked()


def _chain() -> None:
    spec = PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_start()
_chain()
