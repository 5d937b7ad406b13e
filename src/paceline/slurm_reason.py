"""Why a job waits: Slurm's own word, and what it means to who submitted it, where something can be done.

Words as in the manual of squeue, JOB REASON CODES (Slurm 22.05 and later). A limit of an account or a QOS has many
names, AssocGrpGRES or QOSMaxWallDurationPerJobLimit: they are known by how they begin.
"""

from __future__ import annotations

__all__ = ["reason_text"]

_MEANS = {
    "Priority": "jobs of others come first",
    "Resources": "nodes are not free yet",
    "JobArrayTaskLimit": "as many tasks run as --array allows",
    "BeginTime": "it may not start before its time",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition takes no jobs",
    "PartitionTimeLimit": "it asks for more --time than its partition gives",
    "PartitionNodeLimit": "it asks for more nodes than its partition gives",
    "PartitionConfig": "it asks for what its partition does not have",
    "BadConstraints": "no node has what --constraint and --gres ask for",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "Nodes_required_for_job_are_DOWN": "sinfo says which",
    "InvalidAccount": "its --account is not valid",
    "InvalidQOS": "its qos is not valid",
    "JobHeldUser": "it is held; scontrol release lets it go",
    "JobHeldAdmin": "an administrator holds it",
    "Dependency": "it waits for another job",
    "Licenses": "it waits for a licence",
    "Reservation": "its reservation has not begun",
}
_BEGINS = {
    "Assoc": "a limit of your account is reached; sacctmgr show assoc, or wait",
    "QOS": "a limit of your QOS is reached; sacctmgr show qos, or wait",
}


def reason_text(reason: str) -> str:
    """`PartitionTimeLimit: it asks for more --time than its partition gives`; an unknown word stands alone."""
    word = reason.split(",")[0]  # ReqNodeNotAvail,_UnavailableNodes:n[1-2]
    known = _MEANS.get(word) or next((text for name, text in _BEGINS.items() if word.startswith(name)), None)
    plain = reason.replace("_", " ")
    return plain if known is None else f"{plain}: {known}"
