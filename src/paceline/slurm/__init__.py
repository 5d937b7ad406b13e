"""Slurm's text and states as data: the sbatch script, job arrays, why a job waits, how it ended.

Its commands are run in launch/slurm/.
"""
