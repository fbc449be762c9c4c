"""Tests of `runyard.app.loops`."""
