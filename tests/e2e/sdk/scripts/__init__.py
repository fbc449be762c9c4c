"""The golden paths as a user of DigitalHub writes them, run by the python of an SDK's line.

One script serves all four lines; where they differ it asks `driving.LINE`. A script tells what it saw, in JSON lines
on stdout, and judges nothing: the tests do. Start at `driving`.
"""
