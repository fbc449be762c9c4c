"""The one YAML loader of the product and its printer. Start in `loader.py`. Owner of PyYAML."""
