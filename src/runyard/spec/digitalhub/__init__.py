"""DigitalHub's forms: reference strings, base templates, Core settings, and specs in the shapes its SDKs read."""
