"""Held against ground truth: what strace sees of a program, and what a model says of a generated one."""
