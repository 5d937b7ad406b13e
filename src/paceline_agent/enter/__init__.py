"""Entering a process that trains: what the desk asked for, starting once torch is there, and what runs beside a trial.

look.py, find_module.py and on_node.py stand alone: the desk runs them as files, with the Python of the script.
sitecustomize_entry.py becomes sitecustomize.py of the trial.
"""
