"""What everything speaks: errors, units, estimates, statistics, least squares, JSON of any record.

Nothing here knows what a training is.
"""
