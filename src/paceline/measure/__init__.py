"""Samples of a training become Profiles: the split of a step, speed-up, gain per doubling, what holds it back.

What was measured and nothing else: no prediction, no advice.
"""
