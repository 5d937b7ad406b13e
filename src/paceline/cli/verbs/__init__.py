"""One file for each verb of `paceline`.

What a verb does is done elsewhere; here it is asked for and shown.
"""
