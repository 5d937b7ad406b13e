"""Why a job waits or is not taken: Slurm's own words, and what they mean to who submitted it.

Words as in the manual of squeue, JOB REASON CODES (Slurm 22.05 and later). A limit of an account or a QOS has many
names, AssocGrpGRES or QOSMaxWallDurationPerJobLimit: they are known by how they begin.
"""

from __future__ import annotations

__all__ = ["reason_text", "refusal_hint"]

_MEANS = {
    "Priority": "jobs of others come first",
    "Resources": "nodes are not free yet",
    "JobArrayTaskLimit": "as many tasks run as --array allows",
    "BeginTime": "it may not start before its time",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition takes no jobs",
    "PartitionTimeLimit": "it asks for more --time than its partition gives; it will not start",
    "PartitionNodeLimit": "it asks for more nodes than its partition gives; it will not start",
    "PartitionConfig": "it asks for what its partition does not have; it will not start",
    "BadConstraints": "no node has what --constraint and --gres ask for; it will not start",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "Nodes_required_for_job_are_DOWN": "sinfo says which",
    "InvalidAccount": "its --account is not valid; it will not start",
    "InvalidQOS": "its qos is not valid; it will not start",
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
# what sbatch says when it refuses, in lower case, and what to look at
_REFUSED = {
    "array": "--array N with fewer runs, or --array 0: the site allows no array of this size",
    "account": "--account NAME; sacctmgr show user $USER withassoc lists yours",
    "partition": "--partition NAME; sinfo -s lists them",
    "qos": "--sbatch-option qos=NAME; sacctmgr show qos lists them",
    "feature": "--constraint NAME; sinfo -o '%N %f' lists what nodes have",
    "gres": "--gres NAME:COUNT; sinfo -o '%N %G' lists what nodes have",
    "time limit": "--time; sinfo -o '%P %l' lists the longest of every partition",
    "node configuration": "fewer --nodes, --workers-per-node or --threads; sinfo -N -l lists what nodes have",
    "node count": "fewer --nodes; sinfo -s lists how many there are",
    "memory": "--sbatch-option mem=8G; sinfo -o '%N %m' lists what nodes have",
}


def refusal_hint(said: str) -> str:
    """What to correct after sbatch has refused with these words."""
    known = (hint for word, hint in _REFUSED.items() if word in said.lower())
    return next(known, "correct --partition, --account, --time or --gres; sinfo lists what there is")


def reason_text(reason: str) -> str:
    """`PartitionTimeLimit: it asks for more --time than its partition gives`; an unknown word stands alone."""
    word = reason.split(",")[0]  # ReqNodeNotAvail,_UnavailableNodes:n[1-2]
    known = _MEANS.get(word) or next((text for name, text in _BEGINS.items() if word.startswith(name)), None)
    plain = reason.replace("_", " ")
    return plain if known is None else f"{plain}: {known}"
