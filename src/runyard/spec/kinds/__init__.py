"""The kinds of functions that Runyard runs, one module each. Everything kind-specific is data of one `FunctionKind`.

To add a kind, write a module beside `container.py` and add its object to `registry.py`. Start in `function_kind.py`.
"""
