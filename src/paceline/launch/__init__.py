"""How trials are started and watched: commands, processes, telemetry; a launcher larger than a file has a room.

Nothing here knows what a study concludes.
"""
