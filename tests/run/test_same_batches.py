"""No DistributedSampler: every worker trains on the same batches, and looks faster than it is."""

import json

from tests.support.desk import SCRIPTS, SMALL, desk


def test_workers_that_read_the_same_batches_give_no_answer(tmp_path):
    script = (SCRIPTS / "plain_ddp.py", "--", "--compute", "0.01", "--same-data")
    done = desk("study", "--workers", "1,2", *SMALL, "--json", *script, cwd=tmp_path)
    analysis = json.loads(done.stdout)
    assert done.returncode == 2, done.stderr
    assert analysis["verdict"]["answer"] == "no_answer"
    assert [reason["id"] for reason in analysis["verdict"]["reasons"]] == ["same-data"]
    told = next(finding for finding in analysis["findings"] if finding["id"] == "same-data")
    assert "DistributedSampler" in told["hint"]
