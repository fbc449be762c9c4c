"""Firing triggers: shared by the trigger loops and by users who fire one by hand."""
