"""Options that verbs share, and what they become.

No output.
"""
