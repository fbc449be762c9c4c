"""Large and hostile requests to every route of a real server, while others ask `/healthz`.

`make attack` runs thousands; tests/integration/core/test_longest_wait.py runs a part of them. Start in `campaign.py`.
`shapes.py` makes the values, `bodies.py` puts them into the documents of each route, `header_values.py` into headers
and the handshakes of WebSockets. `stored_data.py` stores what is expensive to read. `watched_server.py` measures how
long the event loop was held, `prober.py` how long `/healthz` waited.
"""
