"""Vega-Lite specifications, one file for each kind of chart, and how they are drawn.

Plain data in, plain data out.
"""
