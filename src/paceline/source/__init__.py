"""What a path holds, as an Analysis: a study folder, a table, an analysis.json; and what is declared beside it.

Reads and asks the pipeline; prints nothing, starts nothing.
"""
