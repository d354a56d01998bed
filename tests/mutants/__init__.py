"""Faults planted on purpose, each of which the tests must find: `python -m tests.mutants`."""
