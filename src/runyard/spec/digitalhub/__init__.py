"""Compatibility with DigitalHub: reference strings, base templates, Core settings, and specs as its SDKs read them."""
