"""Mutation testing with planted mutants: small faults in `src` that a named test must notice.

`planted/*.toml` lists them by package: the file, the text to replace, what replaces it, and the tests that must fail.
`python -m tests.mutants` (or `make mutants`) plants each in a copy of `src` and runs those tests against the copy.
`make test` runs a sample. Start in `catalogue.py`, then `runner.py`.
"""
