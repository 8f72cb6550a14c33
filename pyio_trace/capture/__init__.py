"""What runs inside the traced program.

Tracing starts in two ways: startup/ launches a program that runtime/__init__.py
then traces, and pyio_trace/session.py traces a part of a running program.  Both
use runtime/tracer.py, the one place that starts and stops the core.
instrumentation/ watches the functions that instruments/ describe.  Nothing here
may import what reads logs, or anything heavy, while tracing.
"""
