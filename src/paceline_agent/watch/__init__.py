"""Watching: every communication of the process, its waits, its data, the optimizer's steps and what the script says.

Whatever is replaced here calls the original first and changes nothing of it. Each entry point is guarded.
What is seen goes to the room `record`.
"""
