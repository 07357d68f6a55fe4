"""What a model is judged by: fidelity to fp32, and tasks with labels."""
