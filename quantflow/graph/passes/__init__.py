"""Graph passes, one a file. Each changes the model in place and returns how often it applied."""
