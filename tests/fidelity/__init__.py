"""The log compared with ground truth: strace for real programs, a model for generated ones."""
