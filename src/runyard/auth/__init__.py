"""Who is asking: passwords, tokens and the keys that sign them.

Start in `authenticator.py` (from an Authorization header to a `Principal`) and `issuer.py` (access tokens, tokens of
runs, JWKS). An account is looked up for every request, so a disabled one's credentials stop at once; only what is
costly and cannot change, a verified signature or password, is remembered, for at most a minute. May import `app`;
owns argon2 and joserfc.
"""

from runyard.auth.authenticator import ANONYMOUS, Authenticator
from runyard.auth.failure_limiter import FailureLimiter
from runyard.auth.issuer import Issuer
from runyard.auth.passwords import Passwords

__all__ = ["ANONYMOUS", "Authenticator", "FailureLimiter", "Issuer", "Passwords"]
