"""S3-compatible storage as a library: signed requests to a bucket, uploads in parts. Knows nothing of logs and files.

Start in `bucket.py`. `logs` and `files` stand on it, each with errors of its own. Owns httpx2, and imports nothing else
outside the standard library.
"""
