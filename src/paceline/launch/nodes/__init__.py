"""Plain machines that joined: the gate they come through, the wire they speak over, trials over several of them.

A cluster with a scheduler does not need this.
"""
