"""The agent: a guest inside somebody's training process. Standard library and the torch it finds there, nothing else.

It never breaks training and never changes it. It meets the desk only in files (docs/reference/files.md).
"""

FORMAT = 2


def mark(name: str, value: float) -> None:
    """Record a metric beside the steps: `mark("val_accuracy", 0.93)`. Nothing happens outside a trial.

    Call it on one worker or on all; what counts is the first worker's. It never raises.
    """
    try:
        from time import monotonic

        from paceline_agent.enter.entry import running

        agent = running()
        if agent is not None and agent.recorder.active:
            agent.recorder.add_mark(str(name), float(value), monotonic())
            agent.noted(str(name), float(value))
    except Exception as error:
        from paceline_agent.guard import say

        say(f"a mark was not recorded: {type(error).__name__}: {error}")
