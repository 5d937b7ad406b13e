"""The command line: the only room that prints, exits and reads arguments.

One file for each verb in verbs/, what they share in options/ and text/.
"""
