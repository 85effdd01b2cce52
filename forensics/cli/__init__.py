"""What all commands share: the root command, options, configuration, messages."""
