"""Runs through the API of a whole server to real pods, checked from inside their containers.

GPUs are pretended: the testbed's device plugin assigns them, and a container finds the ids of its own, but no device.
"""
