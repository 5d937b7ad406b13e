"""Is the evidence sound? Profiles, launches and rows become Findings, each with number, threshold and cure.

Nothing here advises.
"""
