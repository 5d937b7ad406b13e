"""The agent: a guest inside somebody's training process. Standard library and the torch it finds there, nothing else.

It never breaks training and never changes it. It meets the desk only in files (docs/format.md).
"""

FORMAT = 1
