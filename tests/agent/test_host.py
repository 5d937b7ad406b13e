"""What the agent reads of its host: CPU seconds of its own, and of all."""

import json
import os
import subprocess
import sys
from time import monotonic, process_time

import pytest

from paceline.check.noise import FOREIGN_RATIO
from paceline_agent.record.host import cpu_seconds
from tests.support.limited import limited, needs_limit


def test_the_host_was_busy_at_least_as_long_as_this_process():
    before, begun = cpu_seconds(), monotonic()
    until = process_time() + 0.5
    while process_time() < until:
        pass
    after, wall_s = cpu_seconds(), monotonic() - begun
    own, busy = after["own"] - before["own"], after["busy"] - before["busy"]
    assert own == pytest.approx(0.5, abs=0.05)
    assert own - 0.1 <= busy <= os.cpu_count() * wall_s + 0.1


BUSY = """
import json
from time import monotonic
from paceline_agent.record.host import cpu_seconds
before, begun = cpu_seconds(), monotonic()
while monotonic() < begun + 1.5:
    pass
print(json.dumps([after - before[name] for name, after in cpu_seconds().items()] + [monotonic() - begun]))
"""


@pytest.mark.alone
@needs_limit
def test_what_a_quota_wakes_and_stops_is_not_taken_for_others():
    """Ticks meet it more often than it runs: counted by them, 40% of a core would be two thirds."""
    foreign = []
    with limited(0.4) as words:
        for _ in range(3):
            inside = [*words, sys.executable, "-c", BUSY]
            said = subprocess.run(inside, capture_output=True, text=True, check=True).stdout
            own, busy, _, wall_s = json.loads(said)
            assert own == pytest.approx(0.4 * wall_s, rel=0.1)
            foreign.append((busy - own) / wall_s / os.cpu_count())
    assert min(foreign) < FOREIGN_RATIO / 2
