"""Tests of `runyard.app.triggers`."""
