"""A study on Slurm as its user sees it: its options, handing in, following, the desk inside the allocation.

The launcher is in launch/slurm/.
"""
