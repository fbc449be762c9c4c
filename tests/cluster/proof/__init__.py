"""Runs through the API of a whole server to real pods, checked from inside their containers.

GPUs are checked in the pod only: nothing of them is in a container of the testbed, which has no device plugin.
"""
