"""Tests of `runyard.app.entities`."""
