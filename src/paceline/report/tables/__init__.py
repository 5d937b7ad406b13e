"""Tables of the report, their cells and definitions.

Plain data that page and hand-ins render.
"""
