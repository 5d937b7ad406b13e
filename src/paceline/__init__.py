"""Paceline: how many workers should I train on, and what holds me back?

The desk. It plans, launches, reads, computes and reports; it never imports torch.
"""

__version__ = "0.1.0"
