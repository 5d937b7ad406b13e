"""Ordinary training scripts, one file each, which the desk studies as it studies yours.

Their trainer, data and networks are in folders of their own. Nothing here knows of Paceline.
"""
