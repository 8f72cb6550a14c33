"""Arrow's Parquet writer, without pyarrow.parquet, and with large pages.

pyarrow.parquet imports every file system that Arrow knows, and with them ssl: longer
than a small log takes to pack.  So the class beneath it is used where it is as it
was from pyarrow 16 to 26, and pyarrow.parquet elsewhere.

Later versions of Arrow begin a new page every 20,000 rows, for readers that look
for single rows.  Logs are read whole: with pages that only their bytes limit, they
are a fifth smaller, and take half the time to read.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa

_MOST = (1 << 31) - 1


def open_writer(place: BinaryIO, schema: pa.Schema, **options: Any) -> Any:
    """A writer with the methods write_table(table, row_group_size), add_key_value_metadata(texts) and close().

    options: of pyarrow.parquet.ParquetWriter.
    """
    with contextlib.suppress(ImportError):
        from pyarrow._parquet import ParquetWriter

        # What pyarrow.parquet adds.
        usual = {"writer_engine_version": "V2", "data_page_version": "1.0"}
        for more in ({"max_rows_per_page": _MOST}, {}):  # earlier versions have no such limit
            with contextlib.suppress(TypeError):
                return ParquetWriter(place, schema, **options, **usual, **more)
    import pyarrow.parquet as pq

    return pq.ParquetWriter(place, schema, **options)


def metadata_of(file: BinaryIO) -> Any:
    """pyarrow.parquet.FileMetaData of a complete file."""
    try:
        from pyarrow._parquet import ParquetReader

        reader = ParquetReader()
        reader.open(file)
        return reader.metadata
    except (ImportError, TypeError):
        import pyarrow.parquet as pq

        return pq.read_metadata(file)
