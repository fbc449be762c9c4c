"""Authentication: passwords, tokens and signing keys.

Start in `authenticator.py` (from an Authorization header to a `Principal`) and `issuer.py` (access tokens, tokens of
runs, JWKS). The account is read for every request, so disabling it takes effect at once. Only verified signatures and
passwords are cached, for at most a minute. May import `app`; owns argon2 and joserfc.
"""

from runyard.auth.authenticator import ANONYMOUS, Authenticator
from runyard.auth.failure_limiter import FailureLimiter
from runyard.auth.issuer import Issuer
from runyard.auth.passwords import Passwords

__all__ = ["ANONYMOUS", "Authenticator", "FailureLimiter", "Issuer", "Passwords"]
