"""The process table, and what the log knows about each process besides its operations."""
