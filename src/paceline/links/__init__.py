"""What a connection between workers delivers: probes, nccl-tests and declarations become beliefs with intervals.

No training steps: those are in measure/ and predict/.
"""
