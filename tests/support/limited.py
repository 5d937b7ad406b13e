"""Commands that run under a real CPU limit, for tests that need one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from paceline.launch.cgroup import root_group
from paceline.testbed import quota
from paceline.testbed.blueprint import Host

__all__ = ["limited", "needs_limit"]

_CANNOT = "needs root to make a group" if os.geteuid() else "no cgroup with a CPU quota"


def needs_limit(test):
    """Marks a test that runs something under a CPU limit."""
    possible = os.geteuid() == 0 and root_group() is not None
    return pytest.mark.root(pytest.mark.skipif(not possible, reason=_CANNOT)(test))


@contextlib.contextmanager
def limited(cores):
    """The words before a command that let it use so many cores; the group is gone afterwards."""
    host = Host(1, f"paceline-test-{os.getpid()}", "10.77.0.1", cores=cores)
    quota.limit(host)
    join = str(quota.join_file(host))
    try:
        yield ["sh", "-c", 'echo $$ > "$0"; exec "$@"', join]
    finally:
        quota.remove_group(Path(join).parent)
    assert not quota.groups_like(host.namespace)
