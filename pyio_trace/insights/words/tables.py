"""Tables: pandas, pyarrow, polars, DuckDB, Dask."""

from __future__ import annotations

from pyio_trace.insights.finding import Remedy
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.insights.words.mechanisms import Words

_KEEP = "Read the table once, and keep the columns that are used; or ask for all results in one query."


def _pandas(read: str, columns: str) -> Remedy:
    return Remedy(
        _KEEP,
        f"for day in days:\n    use(pd.{read}(path).query('day == @day'))",
        f"table = pd.{read}(path{columns})    # once\nfor day, part in table.groupby('day'):\n    use(part)",
        "pandas",
    )


WORDS: Words = {
    (m.READ_AGAIN, "pandas/parquet"): _pandas("read_parquet", ", columns=['day', 'x']"),
    (m.READ_AGAIN, "pandas/csv"): _pandas("read_csv", ""),
    (m.READ_AGAIN, "pyarrow"): Remedy(
        _KEEP,
        "for day in days:\n    use(pq.read_table(path).filter(pc.field('day') == day))",
        "table = pq.read_table(path, columns=['day', 'x'])    # once\n"
        "for day in days:\n    use(table.filter(pc.field('day') == day))",
        "pyarrow",
    ),
    (m.READ_AGAIN, "pyarrow/dataset"): Remedy(
        "Make the dataset once, and read the columns that are used, once; or let it choose the rows (filter=), if they "
        "differ each time.",
        "for day in days:\n    table = ds.dataset(path).to_table()\n    use(table.filter(pc.field('day') == day))",
        "table = ds.dataset(path).to_table(columns=['day', 'x'])    # once\n"
        "for day in days:\n    use(table.filter(pc.field('day') == day))",
        "pyarrow",
    ),
    (m.READ_AGAIN, "polars"): Remedy(
        "Read it once, and keep it.",
        "for day in days:\n    use(pl.read_csv(path).filter(pl.col('day') == day))",
        "table = pl.read_csv(path)    # once\nfor (day,), part in table.group_by('day'):\n    use(part)",
        "polars",
    ),
    (m.READ_AGAIN, "duckdb"): Remedy(
        "Ask for all results in one query, or load the table once.",
        "for day in days:\n    use(db.execute(f\"FROM '{path}' WHERE day = {day}\").fetchall())",
        "db.execute(f\"CREATE TABLE t AS FROM '{path}'\")    # once\n"
        "for day in days:\n    use(db.execute(f'FROM t WHERE day = {day}').fetchall())",
        "duckdb",
    ),
    (m.READ_AGAIN, "dask"): Remedy(
        "Compute all results at once, so that they share what is read; or persist() it, if it fits into memory.",
        "mean = frame.x.mean().compute()\nmost = frame.x.max().compute()",
        "mean, most = dask.compute(frame.x.mean(), frame.x.max())",
        "dask",
    ),
    (m.READ_BY_EACH, "pandas/csv"): Remedy(
        "Read it in one process, and give each of the others its part. Where workers are spawned, each runs what the "
        "module has at its top: move it below if __name__ == '__main__'.",
        "def work(n):    # in each process\n    return pd.read_csv(path).x[n::4].sum()\n"
        "with Pool(4) as pool:\n    use(pool.map(work, range(4)))",
        "table = pd.read_csv(path)    # below if __name__ == '__main__'\n"
        "with Pool(4) as pool:\n    use(pool.map(pd.Series.sum, [table.x[n::4] for n in range(4)]))",
        "pandas",
    ),
    (m.OPENED_TO_ADD, "pandas/csv"): Remedy(
        "Write many rows in one call.",
        "for part in parts:\n    part.to_csv(path, mode='a', header=False)",
        "pd.concat(parts).to_csv(path, mode='a', header=False)",
        "pandas",
    ),
    (m.FILES_WRITTEN, "pandas/parquet"): Remedy(
        "Write fewer, larger files: of 100 MB and more.",
        "for n, part in enumerate(parts):\n    part.to_parquet(f'{n}.parquet')",
        "pd.concat(parts).to_parquet('all.parquet')",
        "pandas",
    ),
    (m.FILES_WRITTEN, "pyarrow"): Remedy(
        "Write fewer, larger files: of 100 MB and more.",
        "for n, part in enumerate(parts):\n    pq.write_table(part, f'{n}.parquet')",
        "pq.write_table(pa.concat_tables(parts), 'all.parquet')",
        "pyarrow",
    ),
    (m.FILES_WRITTEN, "dask/parquet"): Remedy(
        "Write fewer, larger files: of 100 MB and more.",
        "frame.to_parquet('out')",
        "frame.repartition(partition_size='100MB').to_parquet('out')",
        "dask",
    ),
    (m.FILES_READ, "pandas/parquet"): Remedy(
        "Keep many parts in one file.",
        "for n in range(count):\n    use(pd.read_parquet(f'{n}.parquet'))",
        "table = pd.read_parquet('all.parquet')    # made once\nfor n, part in table.groupby('part'):\n    use(part)",
        "pandas",
    ),
    (m.SMALL_READS, "pyarrow"): Remedy(
        "Write larger row groups: 100,000 rows and more, so that more is read at once.",
        "pq.write_table(table, path, row_group_size=1000)",
        "pq.write_table(table, path, row_group_size=1 << 20)",
        "pyarrow",
    ),
    (m.SMALL_WRITES, "pyarrow"): Remedy(
        "Write more rows together: 100,000 and more in a row group, or a record batch.",
        "for part in parts:\n    writer.write_table(part)",
        "writer.write_table(pa.concat_tables(parts))",
        "pyarrow",
    ),
}
