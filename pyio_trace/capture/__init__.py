"""The online half: what runs inside the traced program.

bootstrap (a process of a run starts tracing) and session (a context manager
around a part of one) both go through online, the one place that starts and
stops the core; launch turns a command line into a traced program.
Nothing here may import the reading half, or anything heavy, while tracing.
"""
