"""Tests of `runyard.spec.digitalhub`."""
