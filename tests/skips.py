"""The one list of tests that may be skipped, and the hooks that fail a session for any other skip or xfail."""

from fnmatch import fnmatch

import pytest

ALLOWED: dict[str, str] = {}
"""Test id, with * where it varies -> why a machine may skip it."""

surprises: list[str] = []


def unlisted(nodeid: str) -> bool:
    """Whether nothing allows this test to be skipped."""
    return not any(fnmatch(nodeid, pattern) for pattern in ALLOWED)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and unlisted(report.nodeid):
        surprises.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped and unlisted(report.nodeid):
        surprises.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if surprises and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for nodeid in dict.fromkeys(surprises):
        terminalreporter.write_line(f"SKIPPED BUT NOT LISTED in tests/skips.py: {nodeid}", red=True)
