"""A script written for Horovod, rewritten for DistributedDataParallel: text to text.

The API itself is the package paceline_horovod.
"""
