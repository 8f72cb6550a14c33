"""Texts that modules written in Python take apart: XML, YAML, CSV, TOML, INI, workbooks."""

from __future__ import annotations

from pyio_trace.insights.finding import Remedy
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.insights.words.mechanisms import Words

_ONCE = "Take it apart once, and keep what is made of it."


def _kept(load: str, use: str, library: str) -> Remedy:
    """load: makes something of a path; use: takes something with `key` from it, {} stands for it."""
    return Remedy(
        _ONCE,
        f"for key in keys:\n    use({use.format(load)})",
        f"data = {load}    # once\nfor key in keys:\n    use({use.format('data')})",
        library,
    )


_ROWS = "with open(path, newline='') as f:"


def _followed(mode: str) -> Remedy:
    return Remedy(
        "The file grows: keep the place up to which it was read, and go on from there.",
        f"def new_lines():\n    global seen\n    with open(path{mode}) as f:\n        lines = f.readlines()\n"
        "    new, seen = lines[seen:], len(lines)\n    return new",
        f"def new_lines():\n    global place\n    with open(path{mode}) as f:\n        f.seek(place)\n"
        "        new, place = f.readlines(), f.tell()\n    return new",
    )


WORDS: Words = {
    (m.GROWN, "text"): _followed(""),
    (m.GROWN, "buffered"): _followed(", 'rb'"),
    (m.READ_AGAIN, "xml"): _kept("ElementTree.parse(path)", "{}.findtext(key)", "xml"),
    (m.READ_AGAIN, "yaml"): _kept("yaml.safe_load(open(path))", "{}[key]", "yaml"),
    (m.READ_AGAIN, "tomllib"): _kept("tomllib.load(open(path, 'rb'))", "{}[key]", "tomllib"),
    (m.READ_AGAIN, "configparser"): Remedy(
        _ONCE,
        "for key in keys:\n    config = configparser.ConfigParser()\n    config.read(path)\n    use(config['a'][key])",
        "config = configparser.ConfigParser()\nconfig.read(path)    # once\n"
        "for key in keys:\n    use(config['a'][key])",
        "configparser",
    ),
    (m.READ_AGAIN, "openpyxl"): _kept("openpyxl.load_workbook(path)", "{}[key]['A1'].value", "openpyxl"),
    (m.READ_AGAIN, "csv"): Remedy(
        _ONCE,
        f"for key in keys:\n    {_ROWS}\n        use([row for row in csv.DictReader(f) if row['k'] == key])",
        f"{_ROWS}\n    rows = list(csv.DictReader(f))    # once\n"
        "for key in keys:\n    use([row for row in rows if row['k'] == key])",
        "csv",
    ),
}
