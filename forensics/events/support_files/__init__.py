"""What lies beside logs in a support bundle, read into the same events: state, settings, ends."""
