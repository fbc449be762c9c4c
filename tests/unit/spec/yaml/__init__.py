"""Tests of `runyard.spec.yaml`."""
