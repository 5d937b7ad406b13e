"""A study is run: what is missing, one trial from start to state, the watchdog.

What the results mean is said in analysis/.
"""
