"""Finds the rules.

A rule is a module of pyio_trace/insights/rules that has a Rule under the name
RULE.  Its slug is the module's name with hyphens, its documentation the module's
docstring.  A rule of another distribution is an entry point of the group
"pyio_trace.insights", which names the slug and the Rule.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

from pyio_trace import plug_ins
from pyio_trace.errors import ConfigError, printable
from pyio_trace.insights import rules as found_here
from pyio_trace.insights.rule import Rule

GROUP = "pyio_trace.insights"
_SLUG = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def found(third_party: bool = True) -> dict[str, Rule]:
    """All rules by slug, in alphabetical order; ours win.  Raises ConfigError for a third party's that cannot be
    loaded."""
    ours = {_slug(info.name): _ours(info.name) for info in pkgutil.iter_modules(found_here.__path__)}
    others = dict(_third_party()) if third_party else {}
    return dict(sorted((others | ours).items()))


def _slug(module: str) -> str:
    return module.replace("_", "-")


def _ours(name: str) -> Rule:
    module = importlib.import_module(f"{found_here.__name__}.{name}")
    return _named(module.RULE, _slug(name), module)


def _named(rule: Rule, slug: str, module: ModuleType | None) -> Rule:
    doc = (module.__doc__ or "").strip() if module is not None else ""
    return replace(rule, slug=slug, doc=doc)


def _third_party() -> Iterator[tuple[str, Rule]]:
    for name, where in plug_ins.of_group(GROUP).items():
        blame = f"the rule {printable(name)!r} of {printable(where)}"
        if not _SLUG.fullmatch(name):
            raise ConfigError("bad-insight", f"{blame}: its name is no slug; write lower-case words with hyphens")
        try:
            rule = plug_ins.loaded(where)
        except Exception as error:  # whatever its module does when it is imported
            what = f"{type(error).__name__}: {error}"
            raise ConfigError("bad-insight", f"{blame} cannot be loaded ({what}); repair or uninstall it") from None
        if not isinstance(rule, Rule):
            raise ConfigError("bad-insight", f"{blame} is no pyio_trace.rules.Rule; repair or uninstall it")
        yield name, _named(rule, name, plug_ins.module_of(where))
