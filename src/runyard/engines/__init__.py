"""Engines: what executes runs. Each implements `app.engine.Engine` in a package of its own."""
