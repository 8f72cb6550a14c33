"""The values of options: what they mean.  test_config.py has those that are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyio_trace.config import BY_NAME
from pyio_trace.errors import ConfigError
from pyio_trace.session import text_of
from pyio_trace.values import CATEGORIES

FILTER = Path(__file__).parents[1] / "csrc" / "core" / "state" / "filter.c"

#: Values from Python -> the words, or None where they are refused.
GIVEN = [
    ("include", ["*.h5", Path("/scratch")], "*.h5,/scratch"),
    ("include", "*.h5", "*.h5"),
    ("include", b"*.h5", None),
    ("exclude", [1], None),
    ("instruments", ("h5py", "numpy"), "h5py,numpy"),
    ("output", Path("run.pyio"), "run.pyio"),
    ("output", b"run.pyio", "run.pyio"),
    ("output", 5, None),
    ("max_log_size", 1 << 30, str(1 << 30)),
    ("min_size", 10**5000, None),
    ("min_duration", 1e290, "1e+290"),
    ("log_mode", 0o640, "640"),
    ("log_mode", "644", "644"),
    ("log_mode", 6.4, None),
    ("mode", 3, None),
    ("mode", ["trace"], None),
]
GOOD = [("4G", 4 << 30), ("512MiB", 512 << 20), ("1.5g", 3 << 29), ("65536", 65536), ("100 KB", 100 << 10)]
BAD = ["1 T", "0", "G", "-1", "much", "nan", "inf", "10K"]


@pytest.mark.parametrize(("text", "size"), [*GOOD, *((text, None) for text in BAD)])
def test_sizes(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(ConfigError) as problem:
            BY_NAME["max_log_size"].value(text, "--max-log-size")
        assert problem.value.slug == "bad-size"
    else:
        assert BY_NAME["max_log_size"].value(text, "--max-log-size") == size


@pytest.mark.parametrize(("name", "value", "words"), GIVEN, ids=range(len(GIVEN)))
def test_values_given_in_python(name: str, value: object, words: str | None) -> None:
    if words is None:
        with pytest.raises(ConfigError, match=f"^{name}: ") as problem:
            text_of(BY_NAME[name], value)
        assert problem.value.slug == "bad-value"
    else:
        assert text_of(BY_NAME[name], value) == words


def test_categories_are_those_of_the_core() -> None:
    table = FILTER.read_text().partition("categories[] = {")[2].partition("};")[0]
    assert tuple(re.findall(r'\{"(\w+)"', table)) == CATEGORIES
