"""Checks the names of operations and instruments in a run's options; imported only where there are any."""

from __future__ import annotations

import os

from pyio_trace import native
from pyio_trace.capture.instrumentation import instrument_registry
from pyio_trace.errors import ConfigError
from pyio_trace.values import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyio_trace.config import Config


def check_names(config: Config, known: dict[str, str]) -> None:
    """Raises ConfigError for an op:NAME that is not an operation, and for an instrument that does not exist.

    known: from instrument_registry.names().
    """
    instrument_registry.check(config.instruments, known)
    rules = f"{config.include},{config.exclude}".split(",")
    patterns = [rule.removeprefix("op:") for rule in rules if rule.startswith("op:")]
    if not patterns:
        return
    operations = native.core.operations() if native.core is not None else _operations_in_source()
    for pattern in patterns:
        if operations and not _matches_one(pattern, operations):
            near = did_you_mean(pattern, operations)
            raise ConfigError("bad-rule", f"op:{pattern}: there is no such operation{near}")


def _matches_one(pattern: str, operations: list[str]) -> bool:
    if native.core is not None:
        return bool(native.core.knows_operation(os.fsencode(pattern)))
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, pattern) for name in operations)


def _operations_in_source() -> list[str]:
    """The names in the core's source, if this is a source tree; for where there is no core."""
    root = os.path.dirname(native.package_folder())
    try:
        with open(os.path.join(root, "csrc", "core", "format", "operations.def"), encoding="utf-8") as table:
            return [line.split('"')[1] for line in table if line.startswith("OP") and '"' in line]
    except OSError:
        return []
