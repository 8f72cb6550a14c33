"""What the ids in a log's records refer to: paths, files, call stacks."""
