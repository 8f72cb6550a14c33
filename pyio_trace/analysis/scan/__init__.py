"""The way over a log's operations: batches, filters, processes and clusters that share the work."""
