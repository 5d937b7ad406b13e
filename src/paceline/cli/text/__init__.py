"""What is shown on a terminal, as text.

No options, no decisions.
"""
