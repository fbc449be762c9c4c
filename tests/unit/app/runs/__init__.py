"""Tests of `runyard.app.runs`."""
