"""From raw logs to the operations table: paths, offsets, stacks, parents, processes."""
