"""Is this machine, and this script, fit to be trained on several workers? Pure: a Machine -> Checks.

What is looked at on the machine itself is in launch/machine.py; what a run alone can show is left to a study.
"""
