"""The canonical model: from torch or ONNX to one graph with named layers, roles and groups."""
