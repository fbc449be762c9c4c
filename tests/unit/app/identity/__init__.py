"""Tests of `runyard.app.identity`."""
