"""Profiles and policy: stored by revision, checked against each other, rehearsed before they are applied."""
