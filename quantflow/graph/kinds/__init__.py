"""The kinds of layer that can be INT8, one a file; `table.py` lists them."""
