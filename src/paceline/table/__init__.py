"""Any table of measurements (CSV, TSV, Markdown) becomes Rows and Profiles in base units.

What the table is worth is judged in check/, not here.
"""
