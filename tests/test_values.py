"""What the words after an option mean; the words that are refused are met in test_config.py as well."""

from __future__ import annotations

import pytest

from pyio_trace.errors import ConfigError
from pyio_trace.values import parse_size

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
