"""The operations table of a live log, column by column."""
