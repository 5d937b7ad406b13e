"""What this worker's memory holds: tensors followed in two steps that are not timed, and how parameters would be cut.

Nothing here changes a tensor or keeps one alive.
"""
