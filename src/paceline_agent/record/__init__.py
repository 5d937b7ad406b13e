"""Recording: the open step and the closed ones, the step graphs, and the files in which the desk finds them.

Memory is bounded, and nothing is written inside a window.
The format is docs/reference/files.md.
"""
