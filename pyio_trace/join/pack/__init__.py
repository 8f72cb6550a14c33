"""Writing a Parquet log, and what happens to a live log when its run has ended."""
