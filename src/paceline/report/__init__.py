"""An Analysis becomes a page, a hand-in, a figure. Nothing is computed here.

Charts, tables and hand-ins have rooms of their own.
"""
