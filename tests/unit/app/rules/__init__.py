"""Tests of `runyard.app.rules`."""
