"""A short benchmark of links and devices that runs none of the user's code: `python -m paceline_agent.probe`.

It has its own file and its own format, and shares nothing with the watching of a training.
The desk's room `links` reads it.
"""
