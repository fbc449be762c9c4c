"""The SDK: a typed client of the server's HTTP API, sync and async. `import runyard as ry` exposes its public names.

Imports only `spec`, and owns httpx2. Modules of this folder do no network I/O: errors, credentials, what is sent, and
how a followed log is read. `aio/` does the I/O and is the only code written for it; `sync/` is generated from it
(`make sdk`). docs/design/sdk.md explains the layers.

Start in `aio/client.py`.
"""
