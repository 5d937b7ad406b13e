"""Hosts on one machine: network namespaces with shaped links and CPU quotas, and the launcher into them.

For tests and evidence; needs root.
"""
