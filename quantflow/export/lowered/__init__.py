"""What becomes of the nodes of an INT8 layer in standard ONNX, one part a file."""
