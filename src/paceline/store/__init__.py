"""Files: studies, trials, worker records, probes, tables of schemas; written once, then renamed.

The only room that opens files of a study.
"""
