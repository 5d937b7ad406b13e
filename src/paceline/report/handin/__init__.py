"""What people hand in: lab report, LaTeX, Markdown, text, the half page of a proposal.

Each renders the same Analysis.
"""
