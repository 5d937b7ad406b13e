"""Trials as steps of a Slurm allocation: the client for its commands, nodes, samples of each node.

Pure text of Slurm is in paceline/slurm/.
"""
