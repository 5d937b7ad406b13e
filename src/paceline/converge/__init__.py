"""Accuracy along training: plateaus, noise scale, epochs to a target, configurations compared by time to it.

Step times are in measure/ and predict/.
"""
