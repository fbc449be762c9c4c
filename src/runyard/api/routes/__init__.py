"""The routes, by what they are about. Each module has `routes`, and `ALL` in `application.py` names the modules."""
