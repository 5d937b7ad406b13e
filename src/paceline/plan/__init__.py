"""What was asked becomes Points and Trials with their price: configuration, goals, what nodes must be.

Nothing here starts anything.
"""
