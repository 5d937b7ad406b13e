"""`horovod run`: workers on several hosts over ssh.

The API that scripts import is the package paceline_horovod.
"""
