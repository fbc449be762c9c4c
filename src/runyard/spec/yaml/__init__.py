"""The product's only YAML loader and printer. Owner of PyYAML. Start in `loader.py`."""
