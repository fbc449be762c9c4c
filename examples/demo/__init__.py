"""The demonstration of `make demo`: the whole product on this machine, in a minute, and nothing left behind.

`story.py` tells it, step by step. `console.py` prints commands and executes them in a shell, exactly as printed.
`stage.py` starts the server, and ends it and every run, whatever happened. `http_client.py` replaces curl if there is
none.
"""
