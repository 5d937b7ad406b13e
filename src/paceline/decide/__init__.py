"""What to do: options, recommendations, the verdict and its thresholds.

From Profiles and predictions only; nothing is measured or fitted here.
"""
