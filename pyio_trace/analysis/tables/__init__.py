"""Tables for the commands: operations in order, sums by file, call stack and line."""
