"""The terminal session of the README, recorded from a real server: `make recording`."""
