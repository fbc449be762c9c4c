"""Source that must be fetched: downloads, archives, git. Start in `source_addresses.py`. Nothing fetched is trusted."""
