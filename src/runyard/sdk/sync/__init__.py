"""The client without `async`: generated from `aio/` by `make sdk`."""
