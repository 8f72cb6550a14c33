"""What the words after an option mean; the words that are refused are met in test_config.py as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyio_trace.errors import ConfigError
from pyio_trace.values import in_words, parse_size

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
    ("mode", 3, None),
    ("mode", ["trace"], None),
]
GOOD = [("4G", 4 << 30), ("512MiB", 512 << 20), ("1.5g", 3 << 29), ("65536", 65536), ("100 KB", 100 << 10)]
BAD = ["1 T", "0", "G", "-1", "much", "nan", "inf", "10K"]


@pytest.mark.parametrize(("text", "size"), [*GOOD, *((text, None) for text in BAD)])
def test_sizes(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(ConfigError) as problem:
            parse_size(text, "--max-log-size")
        assert problem.value.slug == "bad-size"
    else:
        assert parse_size(text, "--max-log-size") == size


@pytest.mark.parametrize(("name", "value", "words"), GIVEN, ids=range(len(GIVEN)))
def test_values_given_in_python(name: str, value: object, words: str | None) -> None:
    if words is None:
        with pytest.raises(ConfigError, match=f"^{name}: ") as problem:
            in_words(value, name)
        assert problem.value.slug == "bad-value"
    else:
        assert in_words(value, name) == words
