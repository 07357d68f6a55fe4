"""The command line. Everything heavy is imported inside commands, so that help is instant."""
