"""Reports of a folder of studies, live, for a browser.

It renders what report/ renders.
"""
