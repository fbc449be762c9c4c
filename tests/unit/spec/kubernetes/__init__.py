"""Tests of `runyard.spec.kubernetes`."""
