"""How light the base install is: time of the import and size on disk, beside the published SDK of DigitalHub.

`digitalhub.txt` has the pins of the SDK alone, `digitalhub-runtimes.txt` those of the SDK with the runtimes that
python and container functions need. The first lines of each name the command that makes it.
"""
